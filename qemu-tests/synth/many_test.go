package synth_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
)

func portString(a netip.AddrPort) string { return strconv.Itoa(int(a.Port())) }

// echo serves l until it is closed.
func echo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}()
	}
}

// Many connections at a time do not get in each other's way, and their places
// are used again.
func TestManyConnections(t *testing.T) {
	const atATime, total, size = 100, 500, 3000
	r := newRecorder()
	g := startGuest(t, synth.Config{Handler: r, Conns: atATime, RingSize: 64})
	l, at := listen(t)
	go echo(l)
	begun, closed := 0, 0
	open := func() {
		c, err := g.Connect(at.Addr(), at.Port())
		if err != nil {
			t.Error(err)
			return
		}
		begun++
		c.Tag = uint32(begun)
		g.Send(c, size)
	}
	r.react = func(c *synth.Conn, what synth.Event) {
		if what&synth.Reset != 0 {
			t.Errorf("connection %d was reset", c.Tag)
		}
		if what&synth.Received != 0 && c.Received == size {
			g.End(c)
		}
		if what&synth.Closed != 0 {
			if c.Received != size {
				t.Errorf("connection %d received %d bytes", c.Tag, c.Received)
			}
			closed++
		}
	}
	await(t, g, "all connections", func() bool {
		for g.Live() < atATime && begun < total {
			open()
		}
		return closed == total
	})
	if _, err := g.Connect(at.Addr(), at.Port()); err != nil {
		t.Error(err)
	}
	for range atATime {
		if _, err := g.Connect(at.Addr(), at.Port()); err != nil {
			if !errors.Is(err, synth.ErrConns) {
				t.Errorf("too many connections: %v", err)
			}
			return
		}
	}
	t.Error("more connections than there is room for")
}

func TestDatagrams(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
			bad := make(chan int, 1000)
			go func() {
				b, want := make([]byte, 2000), make([]byte, 2000)
				synth.Pattern(want, 0)
				for {
					n, from, err := conn.ReadFromUDPAddrPort(b)
					if err != nil {
						return
					}
					if string(b[:n]) != string(want[:n]) {
						bad <- n
					}
					_, _ = conn.WriteToUDPAddrPort(b[:n], from)
				}
			}()
			h := &hearer{recorder: newRecorder()}
			k.cfg.Handler, k.cfg.Datagrams = h.recorder, h
			g := startGuest(t, k.cfg)
			for _, n := range []int{0, 1, 64, 1472} {
				h.bytes = -1
				if ok, err := g.SendDatagram(netip.AddrPortFrom(hostAddr, at.Port()), 4000, n); !ok || err != nil {
					t.Fatalf("send: %v, %v", ok, err)
				}
				await(t, g, "an echo", func() bool { return h.bytes >= 0 })
				if h.bytes != n || h.port != 4000 || h.from.Port() != at.Port() {
					t.Errorf("got %d bytes from %v to port %d, want %d", h.bytes, h.from, h.port, n)
				}
			}
			select {
			case n := <-bad:
				t.Errorf("a datagram of %d bytes arrived changed", n)
			default:
			}
		})
	}
}

// hearer remembers the last datagram.
type hearer struct {
	*recorder
	from  netip.AddrPort
	port  uint16
	bytes int
}

func (h *hearer) Datagram(from netip.AddrPort, port uint16, bytes int) {
	h.from, h.port, h.bytes = from, port, bytes
}

// The loop allocates nothing, whatever it sends and receives.
func TestNoAllocation(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			r := &counter{}
			k.cfg.Handler = r
			g := startGuest(t, k.cfg)
			l, at := listen(t)
			go echo(l)
			c, err := g.Connect(at.Addr(), at.Port())
			if err != nil {
				t.Fatal(err)
			}
			answered := func() bool { return c.Received >= r.want }
			steps := func() {
				for range 100 {
					r.want += 5000
					g.Send(c, 5000)
					if err := g.Run(limit, answered); err != nil {
						t.Fatal(err)
					}
				}
			}
			steps() // the server allocates when it begins
			if n := testing.AllocsPerRun(3, steps); n >= 10 {
				t.Errorf("%v allocations for 100 requests and responses", n)
			}
		})
	}
}

type counter struct{ want uint64 }

func (*counter) Event(*synth.Conn, synth.Event) {}
