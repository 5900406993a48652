package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

// transferTimeout bounds one transfer: 256 MiB at 20 Mbit/s take 107 s.
const transferTimeout = 120 * time.Second

// stallTimeout is how long a transfer may rest.
const stallTimeout = 15 * time.Second

// request makes a request that ends, with the reason, once progress was not called for stallTimeout.
func request(method, url string, body io.Reader) (req *http.Request, progress func(), err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	timer := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("nothing moved for %v", stallTimeout)) })
	req, err = http.NewRequestWithContext(ctx, method, url, body)
	return req, func() { timer.Reset(stallTimeout) }, err
}

// watched calls progress for every read.
type watched struct {
	io.Reader
	progress func()
}

func (w watched) Read(p []byte) (int, error) {
	w.progress()
	return w.Reader.Read(p)
}

func download(url string) (string, int64, error) {
	client := http.Client{Timeout: transferTimeout}
	req, progress, err := request(http.MethodGet, url, nil)
	if err != nil {
		return "", 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, errors.Join(err, context.Cause(req.Context()))
	}
	defer resp.Body.Close()
	d := pattern.NewDigest()
	if _, err := io.CopyBuffer(d, watched{resp.Body, progress}, make([]byte, 1<<18)); err != nil {
		err = errors.Join(err, context.Cause(req.Context()))
		return "", 0, fmt.Errorf("after %d bytes: %w", d.Bytes, err)
	}
	if want := resp.Header.Get("X-Sha256"); resp.StatusCode != http.StatusOK || d.Hex() != want {
		return "", 0, fmt.Errorf("status %s, %d bytes, sha256 %s, want %s", resp.Status, d.Bytes, d.Hex(), want)
	}
	return "sha256 " + d.Hex(), d.Bytes, nil
}

func upload(url string, bytes int64) (string, int64, error) {
	client := http.Client{Timeout: transferTimeout}
	sent := pattern.NewDigest()
	req, progress, err := request(http.MethodPost, url, nil)
	if err != nil {
		return "", 0, err
	}
	req.Body = io.NopCloser(watched{io.TeeReader(pattern.Reader(1, bytes), sent), progress})
	req.ContentLength = bytes
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, errors.Join(fmt.Errorf("after %d bytes: %w", sent.Bytes, err), context.Cause(req.Context()))
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if err != nil {
		return "", 0, err
	}
	return compare(sent, string(answer))
}

// tcpDigest uses a half-close: the server answers after it has seen the end of the stream.
func tcpDigest(address string, bytes int64) (string, int64, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	for range 50 { // a server in the same guest may only just have been started
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
		conn, err = net.DialTimeout("tcp", address, 10*time.Second)
	}
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(transferTimeout))
	sent := pattern.NewDigest()
	if _, err := io.Copy(conn, io.TeeReader(pattern.Reader(1, bytes), sent)); err != nil {
		return "", 0, err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", 0, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1000))
	if err != nil {
		return "", 0, err
	}
	return compare(sent, string(answer))
}

func compare(sent *pattern.Digest, answer string) (string, int64, error) {
	if answer = strings.TrimSpace(answer); answer != sent.Hex() {
		return "", 0, fmt.Errorf("sent %d bytes with sha256 %s, the server saw %s", sent.Bytes, sent.Hex(), answer)
	}
	return "sha256 " + answer, sent.Bytes, nil
}

// serve runs the TCP digest server and the UDP echo server.
func serve(port string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", ":"+port)
	if err != nil {
		return err
	}
	c, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return err
	}
	go echo(c)
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(transferTimeout))
			d := pattern.NewDigest()
			if _, err := io.Copy(d, conn); err == nil {
				fmt.Fprintln(conn, d.Hex())
			}
		}()
	}
}
