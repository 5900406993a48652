package synth_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
)

// Ways for guest and backend to understand each other.
var kinds = []struct {
	name string
	cfg  synth.Config
}{
	{"all offloads", synth.Config{}},
	{"all offloads, large MTU", synth.Config{MTU: 65520}},
	{"no offloads", synth.Config{Features: 1<<32 | header.FeatureMrgRxBuf}},
	{"no offloads, large MTU", synth.Config{MTU: 65520, Features: 1<<32 | header.FeatureMrgRxBuf}},
	{"no event index", synth.Config{Features: synth.AllFeatures &^ (1 << 29)}},
	{"no indirect descriptors, small rings", synth.Config{Features: synth.AllFeatures &^ (1 << 28), RingSize: 32}},
	{"calls for transmitted frames", synth.Config{TxCalls: true}},
	{"small buffers", synth.Config{RxBufBytes: 512}},
	{"spinning", synth.Config{Spin: time.Millisecond}},
}

// checkPattern reads a stream to its end and compares it with the pattern.
func checkPattern(r io.Reader) (n int, err error) {
	got, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		m, err := r.Read(got)
		synth.Pattern(want[:m], uint64(n))
		if !bytes.Equal(got[:m], want[:m]) {
			return n, errors.New("the bytes differ")
		}
		n += m
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// A stream arrives as it was sent, and FIN behind its last byte.
func TestStreamToHost(t *testing.T) {
	const size = 3<<20 + 4321
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			r := newRecorder()
			k.cfg.Handler = r
			g := startGuest(t, k.cfg)
			l, at := listen(t)
			type result struct {
				n   int
				err error
			}
			done := make(chan result, 1)
			go func() {
				conn, err := l.Accept()
				if err != nil {
					done <- result{0, err}
					return
				}
				n, err := checkPattern(conn)
				conn.Close()
				done <- result{n, err}
			}()
			c := connect(t, g, r, at)
			g.Send(c, size)
			g.End(c)
			await(t, g, "the end", func() bool { return r.all[c]&synth.Closed != 0 })
			if got := <-done; got != (result{size, nil}) {
				t.Errorf("the server got %+v, want %d bytes", got, size)
			}
			if want := synth.Opened | synth.Acked | synth.PeerEnded | synth.Closed; r.all[c] != want {
				t.Errorf("events %b, want %b", r.all[c], want)
			}
			if g.Live() != 0 || g.Counters.Unknown != 0 {
				t.Errorf("%d connections are left, counters %+v", g.Live(), g.Counters)
			}
		})
	}
}

// All bytes of a stream from the host are counted, also through small windows.
func TestStreamFromHost(t *testing.T) {
	const size = 3<<20 + 4321
	for _, window := range []int{0, 1000, 70_000} {
		for _, k := range kinds {
			t.Run(fmt.Sprintf("%s, window %d", k.name, window), func(t *testing.T) {
				size := size
				if window == 1000 {
					size = 100_000
				}
				r := newRecorder()
				k.cfg.Handler, k.cfg.WindowBytes = r, window
				g := startGuest(t, k.cfg)
				l, at := listen(t)
				go func() {
					if conn, err := l.Accept(); err == nil {
						_, _ = conn.Write(make([]byte, size))
						conn.Close()
					}
				}()
				c := connect(t, g, r, at)
				await(t, g, "the server's end", func() bool { return r.all[c]&synth.PeerEnded != 0 })
				if c.Received != uint64(size) {
					t.Errorf("received %d bytes, want %d", c.Received, size)
				}
				g.End(c)
				await(t, g, "the end", func() bool { return r.all[c]&synth.Closed != 0 })
			})
		}
	}
}

// A server that does not read closes the window; nothing is lost by that.
func TestWindowOfHost(t *testing.T) {
	r := newRecorder()
	g := startGuest(t, synth.Config{Handler: r})
	l, at := listen(t)
	c := connect(t, g, r, at)
	conn, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	g.Send(c, synth.Endless)
	before := -1
	for end := time.Now().Add(limit); before != c.Unacked(); { // until it stands still
		if before = c.Unacked(); time.Now().After(end) {
			t.Fatal("the guest goes on and on")
		}
		_ = g.Run(300*time.Millisecond, func() bool { return false })
	}
	snd, _ := c.Seq()
	g.End(c)
	got := make(chan error, 1)
	go func() {
		_, err := checkPattern(conn)
		conn.Close()
		got <- err
	}()
	await(t, g, "the end", func() bool { return r.all[c]&synth.Closed != 0 })
	if err := <-got; err != nil {
		t.Errorf("the server: %v (blocked at %d)", err, snd)
	}
}

func TestRefused(t *testing.T) {
	r := newRecorder()
	g := startGuest(t, synth.Config{Handler: r})
	l, at := listen(t)
	l.Close()
	c, err := g.Connect(at.Addr(), at.Port())
	if err != nil {
		t.Fatal(err)
	}
	await(t, g, "the refusal", func() bool { return r.sum != 0 })
	if r.all[c] != synth.Reset || g.Live() != 0 {
		t.Errorf("events %b, %d connections left", r.all[c], g.Live())
	}
}

// Aborts reach the other side.
func TestAbort(t *testing.T) {
	r := newRecorder()
	g := startGuest(t, synth.Config{Handler: r})
	l, at := listen(t)
	for _, byGuest := range []bool{true, false} {
		c := connect(t, g, r, at)
		conn, err := l.AcceptTCP()
		if err != nil {
			t.Fatal(err)
		}
		if !byGuest {
			_ = conn.SetLinger(0)
			conn.Close()
			await(t, g, "the reset", func() bool { return r.all[c]&synth.Reset != 0 })
			continue
		}
		g.Abort(c)
		await(t, g, "quiet", g.Idle)
		_ = conn.SetReadDeadline(time.Now().Add(limit))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read after the abort: %v, want ECONNRESET", err)
		}
		conn.Close()
	}
	if g.Live() != 0 {
		t.Errorf("%d connections are left", g.Live())
	}
}

// The guest is a server for connections to a forwarded port.
func TestListen(t *testing.T) {
	l, free := listen(t)
	l.Close()
	r := newRecorder()
	var g *synth.Guest
	r.react = func(c *synth.Conn, what synth.Event) {
		if what&synth.Opened != 0 {
			g.Send(c, 100_000)
		}
		if what&synth.PeerEnded != 0 {
			g.End(c)
		}
	}
	host := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), free.Port())
	g = startGuest(t, synth.Config{Handler: r}, "-t", host.Addr().String()+"/"+portString(host)+":7")
	g.Listen(7)
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := net.Dial("tcp", host.String())
		if err != nil {
			done <- result{0, err}
			return
		}
		defer conn.Close()
		_, _ = conn.Write(make([]byte, 5000))
		_ = conn.(*net.TCPConn).CloseWrite()
		n, err := checkPattern(conn)
		done <- result{n, err}
	}()
	await(t, g, "a connection", func() bool { return r.sum&synth.Closed != 0 })
	if got := <-done; got != (result{100_000, nil}) {
		t.Errorf("the client got %+v", got)
	}
	if r.last.Received != 5000 {
		t.Errorf("the guest received %d bytes", r.last.Received)
	}
}
