package logging

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// syslogd is a system's log.
type syslogd struct{ *net.UnixConn }

func startSyslogd(t *testing.T, path string) syslogd {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return syslogd{c}
}

// wants reads messages, which must match in this order.
func (s syslogd) wants(t *testing.T, patterns ...string) {
	t.Helper()
	buf := make([]byte, 1000)
	for _, p := range patterns {
		if err := s.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := s.Read(buf)
		if err != nil || !regexp.MustCompile(p).Match(buf[:n]) {
			t.Errorf("%q, error %v; want %q", buf[:n], err, p)
		}
	}
}

func detached(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(&bytes.Buffer{}, "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.out.detach(path)
	return l
}

func TestSystemLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	d := startSyslogd(t, path)
	l := detached(t, path)
	l.Info("hello", "a", 1)
	l.Warn("careful")
	d.wants(t, `^<30>\w{3} [ \d]\d \d\d:\d\d:\d\d vhost-net-go\[\d+\]: hello: a=1\n$`, `^<28>.*: careful\n$`)
	for _, level := range []hclog.Level{hclog.Error, hclog.Warn, hclog.Info, hclog.Debug, hclog.Trace, hclog.NoLevel} {
		_, _ = l.out.LevelWrite(level, []byte("m\n"))
	}
	d.wants(t, "^<27>", "^<28>", "^<30>", "^<31>", "^<31>", "^<30>")
}

// TestSystemLogRestarts: the socket of a log that was restarted is another one,
// and what came meanwhile is counted.
func TestSystemLogRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := detached(t, path) // before there is any
	l.Info("one")
	d := startSyslogd(t, path)
	l.Info("two")
	d.wants(t, `^<28>.*: 1 messages were lost: `, `: two\n`)
	d.Close()
	l.Info("three")
	l.Info("four")
	startSyslogd(t, path).Close()
	l.Info("five")
	d = startSyslogd(t, path)
	l.Info("six")
	d.wants(t, `: 3 messages were lost: `, `: six\n`)
}

// TestSystemLogHangs: one that reads nothing is not waited for.
func TestSystemLogHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	d := startSyslogd(t, path)
	l := detached(t, path)
	begun := time.Now()
	for range 10_000 {
		l.Info("message")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	d.wants(t, ": message\n") // there is room for one
	l.Info("last")
	for {
		buf := make([]byte, 1000)
		_ = d.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := d.Read(buf)
		if err != nil {
			t.Fatal("nothing tells of the messages that were lost: ", err)
		}
		if bytes.Contains(buf[:n], []byte("messages were lost")) {
			return
		}
	}
}
