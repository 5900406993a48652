package udp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/netstack/reassembly"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	flowToken, listenToken = 5, 6
)

func addr(s string) header.Addr { return header.AddrFromNetip(netip.MustParseAddr(s)) }

// The guest reaches the host's loopback, where the tests' peers are, under
// loop4 and loop6.
var (
	guest4, gate4, loop4 = addr("10.0.2.15"), addr("10.0.2.2"), addr("10.0.2.3")
	guest6, gate6, loop6 = addr("fd00::15"), addr("fe80::1"), addr("fd00::3")
)

// world is a Handler between a guest and real sockets on the loopback.
type world struct {
	t     testing.TB
	link  link.Link
	queue *framequeue.Queue
	poll  *poller.Poller
	guest *ringtest.Guest
	h     *Handler
	start time.Time
	skew  int64 // milliseconds that the clock was moved on
	seen  int   // frames that were looked at
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	x := &world{t: t, start: time.Now(), queue: framequeue.New()}
	x.link = link.Link{
		OurMAC: header.MAC{2, 1}, GuestMAC: header.MAC{2, 2}, MTU: 1500, Guest4: guest4, Guest6: guest6,
		OurLinkLocal: gate6, Gateway4: gate4, Features: header.FeatureGuestCsum,
	}
	x.guest = ringtest.New(t, x.queue, 512, 1536, true)
	var err error
	if x.poll, err = poller.New(); err != nil {
		t.Fatal(err)
	}
	m, err := addrmap.New(addrmap.Config{
		Own:          addrmap.Pair{V4: gate4.Netip(), V6: gate6.Netip()},
		HostLoopback: addrmap.Pair{V4: loop4.Netip(), V6: loop6.Netip()},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Link: &x.link, Queue: x.queue, Poller: x.poll, Map: m,
		FlowHandler: flowToken, ListenHandler: listenToken,
	}
	for _, f := range change {
		f(&cfg)
	}
	x.h = New(cfg)
	t.Cleanup(func() {
		x.h.Close()
		x.poll.Close()
	})
	return x
}

// turn does what the worker's loop does once, waiting up to waitMs for events.
func (x *world) turn(waitMs int) {
	n := x.poll.Wait(waitMs)
	x.link.NowMs = time.Since(x.start).Milliseconds() + x.skew
	for i := range n {
		token, ready, _ := x.poll.At(i)
		switch handler, _, _ := link.SplitToken(token); handler {
		case flowToken:
			x.h.Event(token, ready)
		case listenToken:
			x.h.ListenEvent(token, ready)
		}
	}
	if d := x.h.NextDeadlineMs(); d >= 0 && d <= x.link.NowMs {
		x.h.Advance()
	}
	x.h.Run()
	x.queue.Flush()
}

// until takes turns until done, or fails.
func (x *world) until(what string, done func() bool) {
	x.t.Helper()
	for end := time.Now().Add(5 * time.Second); !done(); {
		if time.Now().After(end) {
			x.t.Fatalf("%s: not within 5 s; counters %+v", what, x.h.Stats())
		}
		x.turn(50)
	}
}

// pass moves the clock on.
func (x *world) pass(ms int64) {
	x.skew += ms
	x.turn(0)
}

// send lets the guest send a datagram, in fragments if it exceeds the MTU.
func (x *world) send(src, dst header.Addr, sport, dport uint16, payload []byte) {
	x.t.Helper()
	x.sendIP(header.IP{Src: src, Dst: dst, Proto: header.ProtoUDP, TTL: 64, ID: 9}, sport, dport, payload)
}

func (x *world) sendIP(ip header.IP, sport, dport uint16, payload []byte) {
	x.t.Helper()
	x.link.NowMs = time.Since(x.start).Milliseconds() + x.skew
	x.h.FromGuest(x.frame(ip, sport, dport, payload))
	x.h.EndBatch()
	x.queue.Flush()
}

// frame makes a frame of the guest; one larger than its MTU as reassembly would.
func (x *world) frame(ip header.IP, sport, dport uint16, payload []byte) *link.Frame {
	x.t.Helper()
	buf := make([]byte, header.VnetLen+header.EthLen+ip.Len()+header.UDPLen+len(payload))
	frame := buf[header.VnetLen:]
	n := header.PutEth(frame, x.link.OurMAC, x.link.GuestMAC, ip.EtherType())
	n += header.PutIP(frame[n:], &ip, header.UDPLen+len(payload))
	n += header.PutUDP(frame[n:], sport, dport, len(payload))
	copy(frame[n:], payload)
	cut := min(len(buf), 60)
	f := &link.Frame{
		Head: frame[:min(len(frame), header.MaxHeaders)], Bytes: len(frame),
		Vecs: []iov.Vec{iov.Of(buf[:cut]), iov.Of(buf[cut:])},
	}
	if why := header.Parse(&f.Packet, f.Head, len(frame)); why != header.OK {
		x.t.Fatalf("test frame: %v", why)
	}
	f.Packet.Reassembled = len(frame)-header.EthLen > x.link.MTU
	return f
}

// arrived is what came at the guest.
type arrived struct {
	header.Packet
	data []byte
}

// receive waits for the next packet at the guest, whole again.
func (x *world) receive() arrived {
	x.t.Helper()
	r := reassembly.New(0)
	for {
		x.until("packet for the guest", func() bool { return len(x.guest.Frames) > x.seen })
		p := x.guest.Parse(x.seen)
		f := x.guest.Frames[x.seen]
		x.seen++
		if len(f.Data) > header.EthLen+x.link.MTU {
			x.t.Fatalf("frame of %d bytes to the guest, MTU %d", len(f.Data), x.link.MTU)
		}
		if !p.IsFragment() {
			return arrived{p, f.Data[p.Payload:p.End]}
		}
		whole := r.Add(&link.Frame{
			Packet: p, Head: f.Data[:min(len(f.Data), header.MaxHeaders)], Bytes: len(f.Data),
			Vecs: []iov.Vec{iov.Of(make([]byte, header.VnetLen)), iov.Of(f.Data)},
		}, 0)
		if whole != nil {
			b := whole.Vecs[0].Bytes()[header.VnetLen:]
			return arrived{whole.Packet, b[whole.Packet.Payload:whole.Packet.End]}
		}
	}
}

// host is a UDP socket on the host's loopback.
type host struct {
	t testing.TB
	*net.UDPConn
	port uint16
	ip   *ipv4.PacketConn // with wantTTL
}

func newHost(t testing.TB, v6 bool) *host {
	t.Helper()
	ip := net.IPv4(127, 0, 0, 1)
	if v6 {
		ip = net.IPv6loopback
	}
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip})
	if err != nil {
		t.Skipf("no UDP socket on %v: %v", ip, err)
	}
	t.Cleanup(func() { c.Close() })
	return &host{t: t, UDPConn: c, port: uint16(c.LocalAddr().(*net.UDPAddr).Port)}
}

// hostAt is newHost with a port.
func hostAt(t testing.TB, port uint16) *host {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &host{t: t, UDPConn: c, port: port}
}

// read waits for a datagram.
func (s *host) read() ([]byte, netip.AddrPort) {
	s.t.Helper()
	b := make([]byte, 65536)
	_ = s.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, from, err := s.ReadFromUDPAddrPort(b)
	if err != nil {
		s.t.Fatalf("host socket: %v", err)
	}
	return b[:n], from
}

func (s *host) write(b []byte, to netip.AddrPort) {
	s.t.Helper()
	if _, err := s.WriteToUDPAddrPort(b, to); err != nil {
		s.t.Fatal(err)
	}
}

// sendTrain sends b as datagrams of segBytes each, in one call.
func (s *host) sendTrain(b []byte, segBytes uint16, to netip.AddrPort) {
	s.t.Helper()
	c, err := s.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	_ = c.Control(func(fd uintptr) {
		e := hostsock.Endpoint{Addr: header.AddrFromNetip(to.Addr()), Port: to.Port()}
		_, errno := new(hostsock.DatagramCalls).SendTrainTo(int(fd), []iov.Vec{iov.Of(b)}, segBytes, e, false, &header.Addr{}, 64)
		if errno != 0 {
			s.t.Fatal(errno)
		}
	})
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}
