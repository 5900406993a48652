package synth_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
)

// daemon is the backend, built for the tests.
var daemon string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "synth")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	daemon = filepath.Join(dir, "vhost-net-go")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", daemon, "./cmd/vhost-net-go")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the backend: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// The guest's world: its own address, and that of the machine the test runs on.
var (
	guestAddr = netip.MustParseAddr("192.0.2.5")
	gateway   = netip.MustParseAddr("192.0.2.1")
	hostAddr  = netip.MustParseAddr("192.0.2.9")
)

const limit = 20 * time.Second

// startGuest starts a backend, with additional arguments, and a guest on it.
func startGuest(t *testing.T, cfg synth.Config, args ...string) *synth.Guest {
	t.Helper()
	cfg.Addr, cfg.Gateway = guestAddr, gateway
	g, err := synth.New(startDaemon(t, cfg.Style, cfg.MTU, args...), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, g)
	return g
}

func closeAtEnd(t *testing.T, g *synth.Guest) {
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close the guest: %v", err)
		}
	})
}

// startDaemon starts a backend and connects to it.
func startDaemon(t *testing.T, style vutest.Style, mtu int, args ...string) *vutest.Frontend {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	// A socket's path is short; that of the test's folder need not be.
	dir, err := os.MkdirTemp("/tmp", "synth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	mtu = cmp.Or(mtu, 1500)
	cmd := exec.CommandContext(ctx, daemon, append([]string{
		"-q", "-s", socket, "-4", "-m", fmt.Sprint(mtu), "-a", guestAddr.String() + "/24", "-g", gateway.String(),
		"--map-host-loopback", hostAddr.String(), "-D", "none",
	}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for end := time.Now().Add(limit); ; {
		fe, err := vutest.Dial(socket, style)
		if err == nil {
			return fe
		}
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// listen opens a server that the guest reaches, and returns where.
func listen(t *testing.T) (*net.TCPListener, netip.AddrPort) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, netip.AddrPortFrom(hostAddr, uint16(l.Addr().(*net.TCPAddr).Port))
}

// recorder is a Handler that remembers all events, and calls react for each.
type recorder struct {
	all   map[*synth.Conn]synth.Event
	sum   synth.Event
	last  *synth.Conn
	react func(*synth.Conn, synth.Event)
}

func newRecorder() *recorder { return &recorder{all: map[*synth.Conn]synth.Event{}} }

func (r *recorder) Event(c *synth.Conn, what synth.Event) {
	r.all[c] |= what
	r.sum |= what
	r.last = c
	if r.react != nil {
		r.react(c, what)
	}
}

// await runs the guest until cond.
func await(t *testing.T, g *synth.Guest, what string, cond func() bool) {
	t.Helper()
	if err := g.Run(limit, cond); err != nil {
		t.Fatalf("%s: %v; counters %+v", what, err, g.Counters)
	}
}

// connect opens a connection.
func connect(t *testing.T, g *synth.Guest, r *recorder, to netip.AddrPort) *synth.Conn {
	t.Helper()
	c, err := g.Connect(to.Addr(), to.Port())
	if err != nil {
		t.Fatal(err)
	}
	await(t, g, "connect", func() bool { return r.all[c] != 0 })
	if r.all[c]&synth.Opened == 0 {
		t.Fatalf("events %b, want Opened", r.all[c])
	}
	return c
}
