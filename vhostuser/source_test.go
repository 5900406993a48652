package vhostuser_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
)

// serving is a Serve under way.
type serving struct {
	t      *testing.T
	log    *testLog
	cancel context.CancelFunc
	done   chan error
}

// serve runs a server for a new echo device on src.
func serve(t *testing.T, src vhostuser.Source, oneOff bool) *serving {
	t.Helper()
	s := &serving{t: t, log: &testLog{ch: make(chan string, 100)}, done: make(chan error, 1)}
	srv, err := vhostuser.New(vhostuser.Config{
		Device: newEchoDevice(t, 2), OneOff: oneOff,
		Logger: hclog.New(&hclog.LoggerOptions{Output: s.log}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.done <- srv.Serve(ctx, src) }()
	t.Cleanup(func() {
		s.cancel()
		s.wait()
		src.Close()
	})
	return s
}

// wait waits until Serve has returned.
func (s *serving) wait() {
	s.t.Helper()
	select {
	case err := <-s.done:
		s.done <- err
		if err != nil {
			s.t.Errorf("Serve: %v", err)
		}
	case <-time.After(patience):
		s.t.Error("Serve does not return")
	}
}

// use runs a guest over fe and closes it.
func use(t *testing.T, fe *vutest.Frontend, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer fe.Close()
	if err := fe.Connect(); err != nil {
		t.Fatal(err)
	}
	g := newGuest(t, stateConfig)
	if _, err := fe.Start(g, wanted); err != nil {
		t.Fatal(err)
	}
	if err := echo(g, 3); err != nil {
		t.Fatal(err)
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := vhostuser.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, false)
	for range 3 {
		fe, err := vutest.Dial(path, vutest.QEMU)
		use(t, fe, err)
	}
	if _, err := vhostuser.Listen(path); err == nil || !strings.Contains(err.Error(), "another process is listening") {
		t.Errorf("second listener: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("path after Close: %v", err)
	}
}

func TestListenModes(t *testing.T) {
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	for _, tc := range []struct {
		umask int
		opts  []vhostuser.ListenOption
		want  fs.FileMode
	}{
		{0, nil, 0o600},
		{0o077, nil, 0o600},
		{0o777, []vhostuser.ListenOption{vhostuser.WithMode(0o666)}, 0o666},
		{0o027, []vhostuser.ListenOption{vhostuser.WithMode(0o660)}, 0o660},
	} {
		path := filepath.Join(t.TempDir(), "s")
		unix.Umask(tc.umask)
		l, err := vhostuser.Listen(path, tc.opts...)
		unix.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Lstat(path)
		if err != nil || st.Mode().Perm() != tc.want {
			t.Errorf("umask %o: mode %v, %v, want %v", tc.umask, st.Mode(), err, tc.want)
		}
		l.Close()
	}
}

// TestListenStale: the path of a listener that is gone is taken over; one that
// was taken over from us is not removed.
func TestListenStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	first, err := vhostuser.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := vhostuser.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("path of the second listener: %v", err)
	}
}

func TestListenErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                             "not a socket",
		filepath.Join(dir, "no", "s"):    "no such file",
		"":                               "not the path",
		"@abstract":                      "not the path",
		"/" + strings.Repeat("long", 40): "161 bytes long",
	} {
		if _, err := vhostuser.Listen(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestSecondFrontend: it gets its turn when the first one goes soon, and is
// turned away with a log line when it does not.
func TestSecondFrontend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	log := &testLog{ch: make(chan string, 100)}
	l, err := vhostuser.Listen(path, vhostuser.WithLogger(hclog.New(&hclog.LoggerOptions{Output: log})))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, false)
	first, err := vutest.Dial(path, vutest.QEMU)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := first.Connect(); err != nil {
		t.Fatal(err)
	}
	second, err := vutest.Dial(path, vutest.QEMU)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := second.Conn.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("second frontend: %v, want the end of the connection", err)
	}
	if lines := strings.Join(log.lines(), ""); !strings.Contains(lines, "another one is connected") {
		t.Errorf("log: %q", lines)
	}
	third, err := vutest.Dial(path, vutest.QEMU)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	use(t, third, nil)
}

func TestOneOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := vhostuser.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, l, true)
	probe, err := vutest.Dial(path, vutest.QEMU) // somebody who only looks whether there is a listener
	if err != nil {
		t.Fatal(err)
	}
	probe.Close()
	fe, err := vutest.Dial(path, vutest.QEMU)
	use(t, fe, err)
	s.wait()
}

// TestDialer: the backend connects, before the frontend listens and after it
// was away.
func TestDialer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	d, err := vhostuser.NewDialer(path, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, d, false)
	for range 3 {
		time.Sleep(50 * time.Millisecond)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		fe, err := vutest.Accept(l, vutest.QEMU)
		use(t, fe, err)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("connected after %v", d)
		}
		l.Close()
	}
	if _, err := vhostuser.NewDialer("", 0, nil); err == nil {
		t.Error("empty path was accepted")
	}
}

// TestDialerMaxPause: the longest pause is the one that was asked for.
func TestDialerMaxPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	d, err := vhostuser.NewDialer(path, time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		time.Sleep(100 * time.Millisecond)
		l, err := net.Listen("unix", path)
		if err != nil {
			return
		}
		defer l.Close()
		if c, err := l.Accept(); err == nil {
			_ = c.Close()
		}
	}()
	c, err := d.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// TestDialerSaysWhy: each reason for waiting is told, once until there is another.
func TestDialerSaysWhy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	var lines lockedBuffer
	d, err := vhostuser.NewDialer(path, time.Millisecond, hclog.New(&hclog.LoggerOptions{Output: &lines, Level: hclog.Info}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = d.Next(ctx)
	}()
	waits := func(n int, why string) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); strings.Count(lines.String(), "waiting") < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not told: %s\n%s", why, lines.String())
			}
		}
		time.Sleep(20 * time.Millisecond) // more attempts
		if s := lines.String(); strings.Count(s, "waiting") != n || !strings.Contains(s[strings.LastIndex(s, "waiting"):], why) {
			t.Errorf("want %d lines, the last with %q:\n%s", n, why, s)
		}
	}
	waits(1, "no such file")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + "2"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	waits(2, "refused")
	os.Remove(path)
	waits(3, "no such file")
	cancel()
	<-ended
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestDialerPause: a frontend that hangs up at once is not called all the time.
func TestDialerPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := vhostuser.NewDialer(path, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, d, false)
	n := 0
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); n++ {
		l.SetDeadline(end)
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}
	if n < 2 || n > 8 {
		t.Errorf("%d connections in half a second", n)
	}
}

func TestInherit(t *testing.T) {
	t.Run("connected", func(t *testing.T) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		src, err := vhostuser.Inherit(fds[0])
		if err != nil {
			t.Fatal(err)
		}
		s := serve(t, src, false)
		f := os.NewFile(uintptr(fds[1]), "frontend")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		use(t, vutest.New(c.(*net.UnixConn), vutest.QEMU), nil)
		s.wait() // there is no other frontend to come
	})
	t.Run("listening", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		l.Close()
		src, err := vhostuser.Inherit(fd)
		if err != nil {
			t.Fatal(err)
		}
		serve(t, src, false)
		for range 2 {
			fe, err := vutest.Dial(path, vutest.QEMU)
			use(t, fe, err)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("the path of an inherited socket is not ours: %v", err)
		}
	})
	for name, open := range map[string]func() (int, error){
		"file": func() (int, error) { return unix.Open("/dev/null", unix.O_RDWR, 0) },
		"inet": func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) },
		"datagram": func() (int, error) {
			return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		},
		"none": func() (int, error) { return -1, nil },
	} {
		t.Run(name, func(t *testing.T) {
			fd, err := open()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := vhostuser.Inherit(fd); err == nil {
				t.Error("was accepted")
			}
		})
	}
}

// TestNewErrors: devices and settings that cannot be served.
func TestNewErrors(t *testing.T) {
	for name, change := range map[string]func(*echoDevice, *vhostuser.Config){
		"no queues":         func(d *echoDevice, _ *vhostuser.Config) { d.queues = nil },
		"many queues":       func(d *echoDevice, _ *vhostuser.Config) { d.queues = make([]echoQueue, 257) },
		"log":               func(d *echoDevice, _ *vhostuser.Config) { d.features |= 1 << 26 },
		"protocol features": func(_ *echoDevice, c *vhostuser.Config) { c.ProtocolFeatures = 1 << 14 },
	} {
		d := new(echoDevice)
		d.queues = make([]echoQueue, 2)
		cfg := vhostuser.Config{Device: d}
		change(d, &cfg)
		if _, err := vhostuser.New(cfg); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
}
