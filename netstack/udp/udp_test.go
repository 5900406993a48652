package udp

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
)

// family holds what differs between the two.
type family struct {
	name              string
	v6                bool
	guest, loop, gate header.Addr
}

var families = []family{
	{"IPv4", false, guest4, loop4, gate4},
	{"IPv6", true, guest6, loop6, gate6},
}

// freePort returns a port that nobody is bound to.
func freePort(t *testing.T, v6 bool) uint16 {
	s := newHost(t, v6)
	s.Close()
	return s.port
}

func TestEcho(t *testing.T) {
	for _, fam := range families {
		t.Run(fam.name, func(t *testing.T) {
			x, peer := newWorld(t), newHost(t, fam.v6)
			port := freePort(t, fam.v6)
			for _, n := range []int{0, 1, 1472, 1473, 3000, 9000, 65507} {
				want := pattern(n)
				x.send(fam.guest, fam.loop, port, peer.port, want)
				got, from := peer.read()
				if !bytes.Equal(got, want) {
					t.Fatalf("%d bytes: host got %d", n, len(got))
				}
				if from.Port() != port {
					t.Errorf("source port %d, guest sent from %d", from.Port(), port)
				}
				peer.write(got, from)
				d := x.receive()
				if !bytes.Equal(d.data, want) || d.Proto != header.ProtoUDP {
					t.Fatalf("%d bytes: guest got %d", n, len(d.data))
				}
				if d.Src != fam.loop || d.Dst != fam.guest || d.SrcPort != peer.port || d.DstPort != port {
					t.Errorf("endpoints %v:%d > %v:%d", d.Src, d.SrcPort, d.Dst, d.DstPort)
				}
			}
			if c := x.h.Stats(); c.Opened != 1 || c.FromGuest != 7 || c.ToGuest.Datagrams != 7 || c.SendFull+c.SendFailed != 0 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

// TestBusyAndPrivilegedPort sends from ports that the host does not let us
// have: the datagram leaves anyway, and the answer comes back.
func TestBusyAndPrivilegedPort(t *testing.T) {
	for _, fam := range families {
		x, peer, busy := newWorld(t), newHost(t, fam.v6), newHost(t, fam.v6)
		x.send(fam.guest, fam.loop, busy.port, peer.port, []byte("hello"))
		got, from := peer.read()
		if string(got) != "hello" || from.Port() == busy.port {
			t.Fatalf("%s: got %q from %v", fam.name, got, from)
		}
		peer.write([]byte("back"), from)
		if d := x.receive(); string(d.data) != "back" || d.DstPort != busy.port {
			t.Errorf("%s: guest got %q at port %d", fam.name, d.data, d.DstPort)
		}
		if c := x.h.Counters; c.OtherPort != 1 {
			t.Errorf("%s: counters %+v", fam.name, c)
		}
	}
}

// TestOnePortManyPeers checks that a port of the guest stays one port of the
// host (RFC 4787 REQ-1), and that only the peers are heard (REQ-8).
func TestOnePortManyPeers(t *testing.T) {
	x, a, b, stranger := newWorld(t), newHost(t, false), newHost(t, false), newHost(t, false)
	port := freePort(t, false)
	x.send(guest4, loop4, port, a.port, []byte("to a"))
	x.send(guest4, loop4, port, b.port, []byte("to b"))
	_, fromA := a.read()
	_, fromB := b.read()
	if fromA.Port() != port || fromA != fromB {
		t.Errorf("two peers see %v and %v", fromA, fromB)
	}
	stranger.write([]byte("psst"), fromA)
	b.write([]byte("b"), fromB)
	a.write([]byte("a"), fromA)
	got := map[string]uint16{}
	for range 2 {
		d := x.receive()
		got[string(d.data)] = d.SrcPort
	}
	if got["a"] != a.port || got["b"] != b.port {
		t.Errorf("guest got %v", got)
	}
	for range 3 {
		x.turn(5)
	}
	if len(x.guest.Frames) != 2 {
		t.Error("guest heard a stranger")
	}
}

func TestNotCarried(t *testing.T) {
	x := newWorld(t)
	for _, tc := range []struct{ src, dst string }{
		{"10.0.2.15", "255.255.255.255"},
		{"10.0.2.15", "224.0.0.251"},
		{"fd00::15", "ff02::fb"},
		{"fd00::15", "ff01::1"},
	} {
		x.send(addr(tc.src), addr(tc.dst), 5353, 5353, []byte("x"))
	}
	x.send(guest4, loop4, 5000, 0, []byte("x"))
	if x.h.Counters.NotCarried != 5 || x.h.NumFlows() != 0 {
		t.Errorf("counters %+v", x.h.Counters)
	}
	for _, dst := range []string{"127.0.0.1", "0.0.0.0"} {
		x.send(guest4, addr(dst), 5000, 53, []byte("x"))
	}
	x.send(guest6, addr("::1"), 5000, 53, []byte("x"))
	if x.h.NumFlows() != 0 || len(x.guest.Frames) != 0 {
		t.Error("martian datagram opened a flow")
	}
}

// TestClosedPort sends to a port nobody listens on: the guest gets the ICMP
// error of the host's kernel, and later datagrams still leave.
func TestClosedPort(t *testing.T) {
	for _, fam := range families {
		t.Run(fam.name, func(t *testing.T) {
			x, peer := newWorld(t), newHost(t, fam.v6)
			peer.Close()
			port := freePort(t, fam.v6)
			x.send(fam.guest, fam.loop, port, peer.port, pattern(100))
			d := x.receive()
			typ, code := byte(header.ICMPUnreachable), byte(header.ICMPCodePort)
			if fam.v6 {
				typ, code = header.ICMPv6Unreachable, header.ICMPv6CodePort
			}
			msg := d.data
			if d.Proto != header.ICMPProto(&fam.guest) || d.Src != fam.loop || d.Dst != fam.guest {
				t.Fatalf("got %+v", d.Packet)
			}
			head := x.guest.Frames[0].Data[d.L4:]
			if head[0] != typ || head[1] != code {
				t.Errorf("type %d, code %d", head[0], head[1])
			}
			// The quoted packet is the guest's own.
			quoted := append(make([]byte, header.EthLen), msg...)
			header.PutEth(quoted, header.MAC{}, header.MAC{}, d.EtherType)
			var q header.Packet
			if why := header.Parse(&q, quoted, len(quoted)); why != header.OK {
				t.Fatalf("quoted packet: %v", why)
			}
			if q.Src != fam.guest || q.Dst != fam.loop || q.SrcPort != port || q.DstPort != peer.port {
				t.Errorf("quoted %v:%d > %v:%d", q.Src, q.SrcPort, q.Dst, q.DstPort)
			}
			x.send(fam.guest, fam.loop, port, peer.port, pattern(10))
			if c := x.h.Stats(); c.FromGuest != 2 || c.SendFailed != 0 || x.h.NumFlows() != 1 {
				t.Errorf("flow did not survive: %+v", c)
			}
		})
	}
}

func TestNoRoute(t *testing.T) {
	x := newWorld(t, func(c *Config) { c.Outbound4 = addr("198.51.100.77") })
	x.send(guest4, addr("198.51.100.1"), 5000, 5000, []byte("x"))
	if x.h.NumFlows() != 0 || x.h.Counters.SendFailed != 1 {
		t.Errorf("bind to an address that the host lacks: %+v", x.h.Counters)
	}
}

func TestTimeouts(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	p1, p2 := freePort(t, false), freePort(t, false)
	x.send(guest4, loop4, p1, peer.port, []byte("one-shot"))
	peer.read()
	x.send(guest4, loop4, p2, peer.port, []byte("1"))
	_, from := peer.read()
	peer.write([]byte("2"), from)
	x.receive()
	x.send(guest4, loop4, p2, peer.port, []byte("3"))
	x.pass(oneShotMs - coarseMs)
	if x.h.NumFlows() != 2 {
		t.Errorf("%d flows before 30 s", x.h.NumFlows())
	}
	x.pass(2 * coarseMs)
	if x.h.NumFlows() != 1 {
		t.Errorf("%d flows after 30 s, want the stream", x.h.NumFlows())
	}
	x.pass(lastingMs - oneShotMs - 3*coarseMs)
	if x.h.NumFlows() != 1 {
		t.Error("stream gone before 120 s")
	}
	x.send(guest4, loop4, p2, peer.port, []byte("4"))
	x.pass(lastingMs - 2*coarseMs)
	if x.h.NumFlows() != 1 {
		t.Error("use does not prolong a flow")
	}
	x.pass(3 * coarseMs)
	if x.h.NumFlows() != 0 || x.h.NextDeadlineMs() != -1 {
		t.Errorf("%d flows left, next deadline %d", x.h.NumFlows(), x.h.NextDeadlineMs())
	}
}

func TestDNSIsForgottenSoon(t *testing.T) {
	x := newWorld(t)
	k := x.flowFor(t, 53)
	i, _ := x.h.table.Lookup(&k)
	f := x.h.flows.at(i)
	x.h.used(i, f, &f.fromHost)
	x.pass(dnsDoneMs + 2*coarseMs)
	if x.h.NumFlows() != 0 {
		t.Error("answered DNS query keeps its socket")
	}
}

// TestRecycling opens more flows than there may be.
func TestRecycling(t *testing.T) {
	x, peer := newWorld(t, func(c *Config) { c.MaxFlows = 8 }), newHost(t, false)
	stream := freePort(t, false)
	x.send(guest4, loop4, stream, peer.port, []byte("1"))
	_, from := peer.read()
	peer.write([]byte("2"), from)
	x.receive()
	x.send(guest4, loop4, stream, peer.port, []byte("3"))
	peer.read()
	for i := range 100 {
		x.send(guest4, loop4, uint16(20000+i), peer.port, []byte("burst"))
		if got, _ := peer.read(); string(got) != "burst" {
			t.Fatalf("got %q", got)
		}
	}
	if x.h.NumFlows() != 8 || x.h.Counters.Recycled != 93 {
		t.Errorf("%d flows, counters %+v", x.h.NumFlows(), x.h.Counters)
	}
	peer.write([]byte("still there"), from)
	if d := x.receive(); string(d.data) != "still there" || d.DstPort != stream {
		t.Error("the stream was recycled before one-shot flows")
	}
}

// flowFor makes a flow of the guest to a remote port, without sending.
func (x *world) flowFor(t *testing.T, port uint16) (k flowKey) {
	k = flowKey{Local: guest4, Remote: loop4, LocalPort: 4444, RemotePort: port, Proto: header.ProtoUDP}
	i, f := x.h.add(&k)
	fd, errno := hostsock.OpenDatagram(false)
	if errno != 0 {
		t.Fatal(errno)
	}
	f.fd = int32(fd)
	x.h.used(i, f, &f.fromGuest)
	return k
}

// TestFullRing fills the guest's ring: datagrams stay in the socket, nothing
// spins, nothing is lost or cut.
func TestFullRing(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	port := freePort(t, false)
	x.send(guest4, loop4, port, peer.port, nil)
	_, from := peer.read()
	x.guest.TakeAway()
	for i := range 20 {
		peer.write(bytes.Repeat([]byte{byte(i)}, 900+i), from)
	}
	x.until("queue to starve", x.queue.Starved)
	x.turn(20) // what came meanwhile
	for range 5 {
		if x.h.Run() || x.queue.Arm() {
			t.Fatal("there is work to do without buffers")
		}
		if n := x.poll.Wait(0); n != 0 {
			t.Fatalf("%d events while parked", n)
		}
	}
	if len(x.guest.Frames) != 0 {
		t.Fatal("frames without buffers")
	}
	for i := 0; i < 20; {
		x.guest.Add(3, 1536)
		if !x.queue.Arm() || !x.queue.Refill() {
			t.Fatal("new buffers not noticed")
		}
		x.h.Refilled()
		for x.h.Run() {
			x.queue.Flush()
		}
		x.queue.Flush()
		for ; x.seen < len(x.guest.Frames); i++ {
			if d := x.receive(); !bytes.Equal(d.data, bytes.Repeat([]byte{byte(i)}, 900+i)) {
				t.Fatalf("datagram %d: %d bytes", i, len(d.data))
			}
		}
	}
}

func TestTTLIsCarried(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	if err := peer.wantTTL(); err != nil {
		t.Fatal(err)
	}
	port := freePort(t, false)
	for _, ttl := range []uint8{64, 1, 17, 255} {
		x.sendIP(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: ttl}, port, peer.port, []byte("x"))
		if got := peer.readTTL(); got != int(ttl) {
			t.Errorf("host sees TTL %d, guest sent %d", got, ttl)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	port := freePort(t, false)
	x.guest.Add(4096, 1536)
	x.guest.Frames = make([]ringtest.Frame, 0, 4096)
	fr := x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, port, peer.port, pattern(100))
	x.h.FromGuest(fr)
	x.h.EndBatch()
	_, from := peer.read()
	i, ok := x.h.table.Lookup(&flowKey{Local: guest4, Remote: loop4, LocalPort: port, RemotePort: peer.port, Proto: header.ProtoUDP})
	if !ok {
		t.Fatal("no flow")
	}
	for range 120 {
		peer.write(pattern(200), from)
	}
	f := x.h.flows.at(i)
	if n := testing.AllocsPerRun(100, func() {
		x.h.FromGuest(fr)
		x.h.EndBatch()
		x.h.FromGuest(fr)
		x.h.FromGuest(fr)
		x.h.EndBatch()
		vs, _ := x.h.out.Open(false, 0)
		if n, errno := x.h.calls.Recv(int(f.fd), vs); errno == 0 {
			x.h.deliver(i, f, n)
		}
	}); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func addrPort(a string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(a), port)
}

// TestDevice: datagrams to the outside leave by the interface that is asked for,
// those to the host's loopback as ever.
func TestDevice(t *testing.T) {
	x, peer := newWorld(t, func(c *Config) { c.Device4 = hostsock.DeviceNamed("no-such-if") }), newHost(t, false)
	x.send(guest4, addr("198.51.100.1"), 5000, 5000, []byte("x"))
	if x.h.NumFlows() != 0 || x.h.Counters.SendFailed != 1 {
		t.Errorf("by an interface that the host lacks: %+v", x.h.Counters)
	}
	x.send(guest4, loop4, freePort(t, false), peer.port, []byte("x"))
	if x.h.NumFlows() != 1 {
		t.Errorf("to the loopback: %+v", x.h.Counters)
	}
}
