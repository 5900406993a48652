package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

func TestReadUsage(t *testing.T) {
	before, err := ReadUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if before.RSSKiB < 1000 || before.PeakKiB < before.RSSKiB || before.Threads < 1 || before.Files < 3 {
		t.Errorf("implausible: %v", before)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	after, err := ReadUsage(os.Getpid())
	if err != nil || after.Files <= before.Files-1 {
		t.Errorf("with one more file open: %v, before: %v, %v", after, before, err)
	}
	if _, err := ReadUsage(-1); err == nil {
		t.Error("usage of no process")
	}
}

func TestStatusField(t *testing.T) {
	status := []byte("Name:\tx\nVmRSS:\t  1234 kB\nThreads:\t7\n")
	for name, want := range map[string]int{"VmRSS": 1234, "Threads": 7, "VmHWM": 0, "Name": 0} {
		if got := statusField(status, name); got != want {
			t.Errorf("%s = %d, want %d", name, got, want)
		}
	}
}

func TestWaitFor(t *testing.T) {
	n := 0
	if err := WaitFor(t.Context(), time.Second, "counting", func() bool { n++; return n == 3 }); err != nil {
		t.Error(err)
	}
	err := WaitFor(t.Context(), 20*time.Millisecond, "the end of the world", func() bool { return false })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the end of the world") {
		t.Error(err)
	}
}

// digestServer answers each connection with what answer makes of its data.
func digestServer(t *testing.T, answer func([]byte) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(conn)
			fmt.Fprint(conn, answer(data))
			conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestDigestAndExchange(t *testing.T) {
	right := digestServer(t, func(data []byte) string {
		d := pattern.NewDigest()
		_, _ = d.Write(data)
		return d.Hex() + "\n"
	})
	wrong := digestServer(t, func([]byte) string { return "" })
	if line, err := Digest(right, 100000); err != nil || !strings.HasPrefix(line, "100000 bytes at") {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := Digest(wrong, 100); err == nil {
		t.Error("no answer is taken for the right one")
	}
	if err := Exchange(right); err != nil {
		t.Error(err)
	}
	if err := Exchange(wrong); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a server that says nothing: %v", err)
	}
}

func TestBackends(t *testing.T) {
	ours, passt := Ours("/somewhere/vhost-net-go"), Passt()
	if !ours.Client || ours.InTree || passt.Client || !passt.InTree {
		t.Errorf("%+v %+v", ours, passt)
	}
	if filepath.Base(ours.Path) != ours.Name {
		t.Errorf("%+v", ours)
	}
}
