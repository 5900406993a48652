package lab

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

// Digest sends test data to a digest server, closes its side and compares the answer.
func Digest(address string, bytes int64) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	start := time.Now()
	if _, err := io.Copy(conn, pattern.Reader(1, bytes)); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	if got, want := strings.TrimSpace(string(answer)), pattern.Sum(1, bytes); got != want {
		return "", fmt.Errorf("the guest saw sha256 %q, want %s", got, want)
	}
	return fmt.Sprintf("%d bytes at %.0f Mbit/s", bytes, float64(bytes)*8/1e6/time.Since(start).Seconds()), nil
}

// Exchange is a connection to the guest that must be answered at once.
func Exchange(address string) error {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && len(answer) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}
