package vhostuser_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Features that the tests' driver takes.
const (
	featureVersion1 uint64 = 1 << 32
	featureEventIdx uint64 = 1 << 29
	featureIndirect uint64 = 1 << 28
	featurePacked   uint64 = 1 << 34
	featureInOrder  uint64 = 1 << 35
	wanted                 = featureVersion1 | featureEventIdx | featureIndirect
	patience               = 5 * time.Second
)

// testLog collects lines and is a writer for hclog.
type testLog struct {
	ch chan string
}

func (l *testLog) Write(b []byte) (int, error) {
	select {
	case l.ch <- string(b):
	default:
	}
	return len(b), nil
}

// lines returns what was logged so far.
func (l *testLog) lines() (out []string) {
	for {
		select {
		case s := <-l.ch:
			out = append(out, s)
		default:
			return out
		}
	}
}

// bench is a server with its device, one frontend and a guest.
type bench struct {
	t     *testing.T
	dev   *echoDevice
	srv   *vhostuser.Server
	fe    *vutest.Frontend
	guest *vutest.Guest
	want  uint64 // features that the guest's driver takes
	log   *testLog

	cancel context.CancelFunc
	served chan int // how many requests, when the connection has ended
}

// newBench serves a new echo device to a frontend of the given style, not yet
// connected in the sense of the protocol.
func newBench(t *testing.T, style vutest.Style, change ...func(*vhostuser.Config)) *bench {
	t.Helper()
	b := &bench{t: t, dev: newEchoDevice(t, 2), want: wanted, log: &testLog{ch: make(chan string, 1000)}}
	cfg := vhostuser.Config{
		Device: b.dev,
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: b.log}),
	}
	for _, f := range change {
		f(&cfg)
	}
	srv, err := vhostuser.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.srv = srv
	b.dev.with(func() { b.dev.broken = srv.RingBroken })
	b.guest = newGuest(t, virtqtest.Config{Size: 64, EventIdx: true, Indirect: true})
	b.connect(style)
	t.Cleanup(b.disconnect)
	return b
}

func newGuest(t *testing.T, cfg virtqtest.Config, spans ...vutest.Span) *vutest.Guest {
	t.Helper()
	if len(spans) == 0 {
		spans = []vutest.Span{{Size: 1 << 20}, {GuestAddr: 1 << 32, Size: 1 << 20, FileOffset: 4096}}
	}
	mem, err := vutest.NewMemory(spans...)
	if err != nil {
		t.Fatal(err)
	}
	g, err := vutest.NewGuest(mem, 2, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		mem.Close()
	})
	return g
}

// connect gives the bench a new connection.
func (b *bench) connect(style vutest.Style) {
	b.t.Helper()
	fe, end, err := vutest.Pair(style)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.fe, b.cancel, b.served = fe, cancel, make(chan int, 1)
	go func(served chan<- int) { served <- b.srv.ServeConn(ctx, end) }(b.served)
}

// disconnect ends the connection and waits until the server has let go.
func (b *bench) disconnect() {
	if b.fe != nil {
		b.fe.Close()
		b.wait()
		b.fe = nil
	}
}

// wait waits until the server has let go of the connection.
func (b *bench) wait() {
	b.t.Helper()
	select {
	case n := <-b.served:
		b.served <- n
	case <-time.After(patience):
		buf := make([]byte, 1<<16)
		b.t.Fatalf("server does not let go of the connection\n%s", buf[:runtime.Stack(buf, true)])
	}
	b.cancel()
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// up connects and starts the guest.
func (b *bench) up() *bench {
	b.t.Helper()
	b.must(b.fe.Connect())
	_, err := b.fe.Start(b.guest, b.want)
	b.must(err)
	return b
}

// echo sends n frames and checks that they come back.
func (b *bench) echo(n int) {
	b.t.Helper()
	if err := echo(b.guest, n); err != nil {
		b.t.Fatal(err)
	}
}

// echo sends n frames of g, one by one, and checks what comes back. Its buffers
// are allocated anew at each call and never given back.
func echo(g *vutest.Guest, n int) error {
	rx, tx := g.Queues[0], g.Queues[1]
	const size = 64
	in, err := g.Memory.Alloc(size, 16)
	if err != nil {
		return err
	}
	out, err := g.Memory.Alloc(size, 16)
	if err != nil {
		return err
	}
	for i := range n {
		copy(g.Memory.Bytes(out, size), fmt.Sprintf("frame %d of %d", i, n))
		if _, err := rx.Add(nil, []virtqtest.Buffer{{Addr: in, Len: size}}); err != nil {
			return err
		}
		if err := rx.Kick(); err != nil {
			return err
		}
		if _, err := tx.Add([]virtqtest.Buffer{{Addr: out, Len: size}}, nil); err != nil {
			return err
		}
		if err := tx.Kick(); err != nil {
			return err
		}
		for _, q := range []*vutest.Queue{tx, rx} {
			if _, err := q.WaitUsed(patience); err != nil {
				return fmt.Errorf("frame %d: %w", i, err)
			}
		}
		if got, want := string(g.Memory.Bytes(in, size)), string(g.Memory.Bytes(out, size)); got != want {
			return fmt.Errorf("frame %d came back as %q, want %q", i, got, want)
		}
	}
	return nil
}

// usage counts what a process can leak.
type usage struct{ fds, maps, goroutines int }

func measure(t testing.TB) usage {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return usage{fds: len(fds), maps: strings.Count(string(maps), "memfd:guest"), goroutines: runtime.NumGoroutine()}
}

// checkUsage fails the test unless usage comes back to before, or below: what
// ended then may have been counted still.
func checkUsage(t testing.TB, before usage) {
	t.Helper()
	var now usage
	for range 100 {
		now = measure(t)
		if now.fds <= before.fds && now.maps <= before.maps && now.goroutines <= before.goroutines {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("usage is %+v, was %+v before", now, before)
}
