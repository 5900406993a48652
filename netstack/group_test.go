package netstack_test

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// pairs is a guest with several queue pairs that knows one conversation, whose
// frames it sends on the pair that use has chosen.
type pairs struct {
	*alloc
	group *netstack.Group
	rigs  []*rig
}

func newPairs(t *testing.T, cfg netstack.Config, n int, proto uint8) *pairs {
	t.Helper()
	broken := make(chan brokenRing, 10)
	g, err := netstack.NewGroup(cfg, n, func(_ int, tx bool, err error) { broken <- brokenRing{tx, err} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	p := &pairs{group: g, alloc: &alloc{}}
	for i := range n {
		r := &rig{t: t, broken: broken}
		r.plug(heap())
		g.Park(func() {
			r.worker, err = g.Worker(i)
			r.must(err)
			r.attach()
			r.enable(true, true)
		})
		r.fill(ringSize / 2)
		p.rigs = append(p.rigs, r)
	}
	p.ip = header.IP{Src: header.AddrFromNetip(guest4), Dst: header.AddrFromNetip(loopback4), Proto: proto, TTL: 64}
	p.use(0)
	p.send(askGateway())
	p.expect("answer about the gateway", isGateway)
	return p
}

// use makes pair i the one that the guest sends and listens on.
func (p *pairs) use(i int) { p.rig = p.rigs[i] }

// connect is that of one pair. Its last frame is handled when it returns: seen
// after a later one on another pair, it would take the flow back.
func (p *pairs) connect() {
	p.t.Helper()
	p.alloc.connect()
	p.settled()
}

// settled waits until everything that the guest sent was handled.
func (p *pairs) settled() {
	p.t.Helper()
	for _, r := range p.rigs {
		for end := time.Now().Add(patience); r.tx.Free() < ringSize; time.Sleep(time.Millisecond) {
			if r.reapTx(); time.Now().After(end) {
				p.t.Fatal("frames of the guest are not handled")
			}
		}
	}
	p.check()
}

// enable says whether pair i is in use.
func (p *pairs) enable(i int, on bool) {
	p.group.Park(func() {
		p.group.EnableRx(i, on)
		p.group.EnableTx(i, on)
	})
}

// data sends a segment with payload.
func (p *pairs) data(payload []byte) {
	b := p.next()[header.VnetLen:]
	l4 := header.PutEth(b, gatewayMAC, guestMAC, header.EtherTypeIPv4)
	l4 += header.PutIP(b[l4:], &p.ip, header.TCPLen+len(payload))
	f := header.TCPFields{SrcPort: guestPort, DstPort: p.dst, Seq: p.seq, Ack: p.ack, Flags: header.TCPAck, Window: 0xffff}
	n := l4 + header.PutTCP(b[l4:], &f, 0)
	n += copy(b[n:], payload)
	header.SetChecksum(b[l4:n], &p.ip.Src, &p.ip.Dst, header.ProtoTCP)
	p.put(header.VnetLen + n)
	p.kickTx()
	p.seq += uint32(len(payload))
}

// arrived returns the next TCP segment on one of the pairs from, if there is one.
func (p *pairs) arrived(from []*rig) (header.TCP, int) {
	const l4 = header.EthLen + header.IPv4Len
	for _, r := range from {
		f := r.receive(100 * time.Microsecond)
		if len(f) > l4 && f[12] == 8 && f[13] == 0 && f[23] == header.ProtoTCP {
			t := header.TCP(f[l4:])
			return t, len(f) - l4 - t.HeaderLen()
		}
	}
	return nil, 0
}

// hear waits for n bytes from the host, which come as one stream on the pair in
// use, and acknowledges them. What was sent on another pair already comes again.
func (p *pairs) hear(n int) {
	p.t.Helper()
	p.hearOn([]*rig{p.rig}, n)
}

// hearOn is hear on the pairs from.
func (p *pairs) hearOn(from []*rig, n int) {
	p.t.Helper()
	for end := time.Now().Add(patience); n > 0; {
		if time.Now().After(end) {
			p.t.Fatalf("%d bytes did not come", n)
		}
		s, got := p.arrived(from)
		if s == nil {
			continue
		}
		if old := int(p.ack - s.Seq()); old >= 0 && old < got {
			p.ack += uint32(got - old)
			n -= got - old
		}
		p.tcp(header.TCPAck, 0)
		p.kickTx()
	}
}

// readAll returns the next n bytes that the host's socket has.
func (p *pairs) readAll(n int) []byte {
	p.t.Helper()
	b := p.scratch[:n]
	for at := 0; at < n; {
		k, err := unix.Read(p.fd, b[at:])
		if k <= 0 {
			p.t.Fatalf("read of the host: %d, %v", k, err)
		}
		at += k
	}
	return b
}

func (p *pairs) say(n int) {
	p.t.Helper()
	if k, err := unix.Write(p.fd, make([]byte, n)); k != n {
		p.t.Fatalf("host wrote %d of %d bytes, %v", k, n, err)
	}
}

// check compares the flows of all workers with the directory, once nothing is on
// its way, and returns them by pair.
func (p *pairs) check() (flows []int) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		flows = flows[:0]
		sum := 0
		for _, s := range p.group.Snapshots() {
			flows = append(flows, s.TCPFlows+s.UDPFlows)
			sum += s.TCPFlows + s.UDPFlows
		}
		if sum == p.group.Owned() {
			return flows
		}
		if time.Now().After(end) {
			p.t.Fatalf("%v flows, the directory has %d", flows, p.group.Owned())
		}
	}
}

// TestReceiveFollowsTransmit: frames to the guest come on the pair on which it
// sends.
func TestReceiveFollowsTransmit(t *testing.T) {
	p := newPairs(t, testConfig(), 3, header.ProtoTCP)
	p.connect()
	for _, i := range []int{0, 1, 2, 0, 2} {
		p.use(i)
		p.data([]byte("where am I?"))
		p.read(11)
		p.say(1000)
		p.hear(1000)
		p.settled()
		if flows := p.check(); flows[i] != 1 {
			t.Errorf("flows %v, want it at pair %d", flows, i)
		}
	}
}

// TestDisabledPairGoesOn: the flows of a pair that is disabled go on at the first
// one, also if the guest says nothing.
func TestDisabledPairGoesOn(t *testing.T) {
	p := newPairs(t, testConfig(), 2, header.ProtoTCP)
	p.connect()
	for range 3 {
		p.use(1)
		p.data([]byte("x"))
		p.read(1)
		p.say(500)
		p.hear(500)
		p.settled()
		p.enable(1, false)
		p.use(0)
		p.say(700)
		p.hear(700)
		if flows := p.check(); flows[0] != 1 {
			t.Errorf("flows %v, want it at the first pair", flows)
		}
		p.settled()
		p.enable(1, true)
	}
}

// TestAnyPair: a guest that sends each segment on any pair, while pairs come and
// go, and the host hear each other, whole and in order.
func TestAnyPair(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := newPairs(t, testConfig(), 3, header.ProtoTCP)
	p.connect()
	on := []bool{true, true, true}
	for range 300 {
		if i := 1 + rng.IntN(2); rng.IntN(8) == 0 {
			on[i] = !on[i]
			p.enable(i, on[i])
		}
		for i := rng.IntN(3); ; i = rng.IntN(3) {
			if on[i] {
				p.use(i)
				break
			}
		}
		sent := make([]byte, 0, 4096)
		for range 1 + rng.IntN(3) {
			payload := make([]byte, 1+rng.IntN(1000))
			for i := range payload {
				payload[i] = byte(rng.Uint32())
			}
			p.data(payload)
			sent = append(sent, payload...)
		}
		if got := p.readAll(len(sent)); !bytes.Equal(got, sent) {
			t.Fatal("other bytes came")
		}
		n := 1 + rng.IntN(3000)
		p.say(n)
		p.hearOn(p.rigs, n)
	}
	for i := range on {
		p.enable(i, true)
	}
	p.settled()
	moved := uint64(0)
	for _, s := range p.group.Snapshots() {
		moved += s.Moves.Moved + s.Moves.Evacuated
		if s.TCP.ResetsSent > 0 {
			t.Errorf("%d resets", s.TCP.ResetsSent)
		}
	}
	if moved < 50 {
		t.Errorf("the flow moved %d times only", moved)
	}
}

// TestManyPairsOneConnection: a SYN that comes again on another pair is the same
// connection.
func TestManyPairsOneConnection(t *testing.T) {
	p := newPairs(t, testConfig(), 2, header.ProtoTCP)
	p.listen(unix.SOCK_STREAM)
	p.must(unix.Listen(p.fd, 8))
	p.limitWaits()
	for i := range 6 {
		p.use(i % 2)
		p.tcp(header.TCPSyn, 0)
		p.kickTx()
	}
	fd, _, err := unix.Accept4(p.fd, unix.SOCK_CLOEXEC)
	p.must(err)
	defer unix.Close(fd)
	time.Sleep(50 * time.Millisecond)
	p.must(unix.SetNonblock(p.fd, true))
	if _, _, err := unix.Accept4(p.fd, unix.SOCK_CLOEXEC); err != unix.EAGAIN {
		t.Errorf("a second connection: %v", err)
	}
	if flows := p.check(); flows[0]+flows[1] != 1 {
		t.Errorf("flows %v", flows)
	}
}

// udpTo sends a datagram of the guest to the host's socket.
func (p *pairs) udpTo(payload string) {
	p.send(udp4(netip.AddrPortFrom(guest4, guestPort), netip.AddrPortFrom(loopback4, p.dst), gatewayMAC, []byte(payload)))
}

// TestDatagramsFollow: a UDP flow keeps its socket, and so its port, on whatever
// pair the guest sends, and is answered there.
func TestDatagramsFollow(t *testing.T) {
	p := newPairs(t, testConfig(), 2, header.ProtoUDP)
	p.listen(unix.SOCK_DGRAM)
	p.limitWaits()
	port := 0
	for i := range 20 {
		p.use(i % 2)
		p.udpTo("hello")
		n, from, err := unix.Recvfrom(p.fd, p.scratch[:], 0)
		p.must(err)
		switch got := from.(*unix.SockaddrInet4).Port; {
		case n != 5:
			t.Fatalf("%d bytes", n)
		case port == 0:
			port = got
		case got != port:
			t.Fatalf("datagram %d comes from port %d, those before from %d", i, got, port)
		}
		p.must(unix.Sendto(p.fd, []byte("answer"), 0, from))
		p.expect("answer", func(f []byte) bool { return bytes.HasSuffix(f, []byte("answer")) })
	}
	p.check()
}

// unusedPort returns a port of the host's loopback.
func unusedPort(t *testing.T, kind int) uint16 {
	t.Helper()
	a := &alloc{rig: &rig{t: t}}
	a.listen(kind)
	a.must(unix.Close(a.fd))
	return a.dst
}

// TestForwardedDatagrams: flows of a forwarded port are bound to the first
// worker; what the guest answers on any pair leaves from that port.
func TestForwardedDatagrams(t *testing.T) {
	cfg := testConfig()
	port := unusedPort(t, unix.SOCK_DGRAM)
	cfg.Forwards = []forward.Rule{{
		Proto: forward.UDP, ListenAddr: netip.MustParseAddr("127.0.0.1"), FirstPort: port, LastPort: port, TargetFirstPort: guestPort,
	}}
	cfg.MapHostLoopback.V4 = loopback4
	p := newPairs(t, cfg, 2, header.ProtoUDP)
	p.listen(unix.SOCK_DGRAM)
	p.limitWaits()
	to := &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	for i := range 10 {
		p.use(0)
		p.must(unix.Sendto(p.fd, []byte("question"), 0, to))
		f := p.expect("question", func(f []byte) bool { return bytes.HasSuffix(f, []byte("question")) })
		const l4 = header.EthLen + header.IPv4Len
		src := netip.AddrPortFrom(netip.AddrFrom4([4]byte(f[26:30])), uint16(f[l4])<<8|uint16(f[l4+1]))
		p.use(i % 2)
		p.send(udp4(netip.AddrPortFrom(guest4, guestPort), src, gatewayMAC, []byte("answer")))
		n, from, err := unix.Recvfrom(p.fd, p.scratch[:], 0)
		p.must(err)
		if n != 6 || from.(*unix.SockaddrInet4).Port != int(port) {
			t.Fatalf("%d bytes from %v", n, from)
		}
	}
	if flows := p.check(); flows[0] != 1 {
		t.Errorf("flows %v", flows)
	}
}

// TestForwardedConnectionsSpread: connections that the host's side begins come on
// all pairs in use, and on no other.
func TestForwardedConnectionsSpread(t *testing.T) {
	cfg := testConfig()
	port := unusedPort(t, unix.SOCK_STREAM)
	cfg.Forwards = []forward.Rule{{
		Proto: forward.TCP, ListenAddr: netip.MustParseAddr("127.0.0.1"), FirstPort: port, LastPort: port, TargetFirstPort: 80,
	}}
	p := newPairs(t, cfg, 3, header.ProtoTCP)
	p.enable(2, false)
	for range 40 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		p.must(err)
		t.Cleanup(func() { unix.Close(fd) })
		p.must(unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}))
	}
	var flows []int
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if flows = p.check(); flows[0]+flows[1] == 40 {
			break
		}
	}
	if flows[0]+flows[1] != 40 || flows[0] < 5 || flows[1] < 5 || flows[2] != 0 {
		t.Errorf("flows %v, want 40 of them on the first two pairs", flows)
	}
	p.enable(1, false)
	if flows := p.check(); flows[0] != 40 {
		t.Errorf("flows %v, want all of them on the first pair", flows)
	}
}

// TestAllLearnTheGuest: what one worker learns of the guest is known to all.
func TestAllLearnTheGuest(t *testing.T) {
	p := newPairs(t, testConfig(), 2, header.ProtoUDP)
	p.use(1)
	p.send(askGateway())
	f := p.expect("answer about the gateway", isGateway)
	if !bytes.Equal(f[:6], guestMAC[:]) {
		t.Errorf("answer to % x", f[:6])
	}
	// The first pair, which has never heard of this address, sends to it.
	other := header.MAC{0x52, 0x54, 0, 1, 1, 1}
	b := askGateway()
	copy(b[6:], other[:])
	copy(b[header.EthLen+8:], other[:])
	p.send(b)
	p.expect("answer about the gateway", isGateway)
	p.listen(unix.SOCK_DGRAM)
	p.limitWaits()
	d := udp4(netip.AddrPortFrom(guest4, guestPort), netip.AddrPortFrom(loopback4, p.dst), gatewayMAC, []byte("hello"))
	copy(d[6:], other[:])
	p.use(0)
	p.send(d)
	_, from, err := unix.Recvfrom(p.fd, p.scratch[:], 0)
	p.must(err)
	p.must(unix.Sendto(p.fd, []byte("answer"), 0, from))
	f = p.expect("answer", func(f []byte) bool { return bytes.HasSuffix(f, []byte("answer")) })
	if !bytes.Equal(f[:6], other[:]) {
		t.Errorf("answer to % x", f[:6])
	}
}

func TestGroupRefuses(t *testing.T) {
	for _, n := range []int{0, -1, netstack.MaxPairs + 1} {
		if _, err := netstack.NewGroup(testConfig(), n, nil); err == nil {
			t.Errorf("%d queue pairs were accepted", n)
		}
	}
	g, err := netstack.NewGroup(testConfig(), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Park(func() {
		if err := g.AttachTx(2, netstack.Tx{KickFD: -1}); err == nil {
			t.Error("a third pair of two")
		}
	})
}

// TestProcessors: each worker has a processor of the scheduler to itself, and
// there is one for everybody else.
func TestProcessors(t *testing.T) {
	was := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(was)
	newPairs(t, testConfig(), 3, header.ProtoTCP)
	if n := runtime.GOMAXPROCS(0); n != 4 {
		t.Errorf("%d processors for 3 workers, want 4", n)
	}
}
