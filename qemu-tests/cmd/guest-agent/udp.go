package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

// udpEcho tries each size a few times: a datagram may be lost, but never altered.
func udpEcho(address string, sizes []int64) (string, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	buf := make([]byte, 1<<16)
	for i, size := range sizes {
		want := pattern.Bytes(uint64(i)+1, int(size))
		var got int
		for range 5 {
			if _, err = conn.Write(want); err != nil {
				return "", fmt.Errorf("send %d bytes: %w", size, err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			if got, err = conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
		}
		if err != nil {
			return "", fmt.Errorf("no echo of %d bytes: %w", size, err)
		}
		if !bytes.Equal(buf[:got], want) {
			return "", fmt.Errorf("the echo of %d bytes has %d bytes and differs", size, got)
		}
	}
	return fmt.Sprintf("%v bytes, echoed byte-exact", sizes), nil
}

func echo(c net.PacketConn) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(buf[:n], from)
	}
}

// beat keeps sending whatever becomes of it: the receiver looks for gaps.
func beat(address string, every time.Duration) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	var number [8]byte
	for n := uint64(0); ; n++ {
		binary.BigEndian.PutUint64(number[:], n)
		_, _ = conn.Write(number[:])
		time.Sleep(every)
	}
}
