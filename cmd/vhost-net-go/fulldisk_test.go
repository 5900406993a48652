package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// onTinyDisk runs f in a folder on a disk of 64 KiB, which only its thread sees.
func onTinyDisk(t *testing.T, f func(dir string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a disk")
	}
	dir := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("disk", dir, "tmpfs", 0, "size=64k")
		}
		if err != nil {
			t.Errorf("mount a disk: %v", err)
			return
		}
		f(dir)
	}()
	<-done
}

// lockedBuilder may be written to by goroutines.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestFullDisk: a capture ends and a log loses messages, each with one warning;
// what is missing is counted, and the log goes on when there is room.
func TestFullDisk(t *testing.T) {
	onTinyDisk(t, func(dir string) {
		var stderr lockedBuilder
		logFile, pcap := filepath.Join(dir, "log"), filepath.Join(dir, "dump")
		log, err := logging.Open(&stderr, logFile, 1<<20, options.Normal)
		if err != nil {
			t.Error(err)
			return
		}
		defer log.Close()
		d, err := openCapture(options.Options{PcapFile: pcap}, log)
		if err == nil {
			err = d.begin()
		}
		if err != nil {
			t.Error(err)
			return
		}
		tap, frame := d.Tap(), make([]byte, 1500)
		for end := time.Now().Add(10 * time.Second); d.Missed() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Error("the capture goes on")
				return
			}
			tap.FrameToGuest([]iov.Vec{iov.Of(frame)}, len(frame))
		}
		for range 100 {
			log.Info("a message")
		}
		if err := d.Close(); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("close: %v", err)
		}
		if err := os.Remove(pcap); err != nil {
			t.Error(err)
		}
		log.Info("there is room again")
		text, err := os.ReadFile(logFile)
		if err != nil || !strings.Contains(string(text), "messages were lost, the file could not be written: count=") ||
			!strings.HasSuffix(string(text), "there is room again\n") {
			t.Errorf("log %q, error %v", text, err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "] ") || !strings.HasSuffix(line, "\n") {
				t.Errorf("not a whole line: %q", line)
			}
		}
		if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "--log-file: write log:") || !strings.Contains(got, "no space left on device") {
			t.Errorf("standard error %q", got)
		}
	})
}
