package netstack_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/mdlayher/ndp"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
)

func TestARP(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.fill(8)
	r.send(askGateway())
	r.expect("answer about the gateway", isGateway)
}

// TestSearch: a guest that says nothing is asked for.
func TestSearch(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.fill(8)
	r.expect("ARP request", func(f []byte) bool { return f[12] == 8 && f[13] == 6 && f[21] == 1 })
}

// udp4 is a datagram of the guest.
func udp4(src, dst netip.AddrPort, mac header.MAC, payload []byte) []byte {
	b := make([]byte, header.EthLen+header.IPv4Len+header.UDPLen+len(payload))
	ip := header.IP{
		Src: header.AddrFromNetip(src.Addr()), Dst: header.AddrFromNetip(dst.Addr()),
		Proto: header.ProtoUDP, TTL: 64,
	}
	l3 := header.PutEth(b, mac, guestMAC, ip.EtherType())
	l4 := l3 + header.PutIP(b[l3:], &ip, header.UDPLen+len(payload))
	n := l4 + header.PutUDP(b[l4:], src.Port(), dst.Port(), len(payload))
	copy(b[n:], payload)
	header.SetChecksum(b[l4:], &ip.Src, &ip.Dst, header.ProtoUDP)
	return b
}

// TestTrainsEndTheTurn: trains that the host's kernel does not take as such, to a
// group, cost a call for each datagram, and do not keep the worker from others.
func TestTrainsEndTheTurn(t *testing.T) {
	const segs = 128
	cfg := testConfig()
	cfg.Outbound4 = netip.MustParseAddr("127.0.0.1") // what goes to a group stays here
	r := newRig(t, cfg, header.FeatureCsum|header.FeatureHostUSO, heap())
	before := r.worker.Snapshot().Counters
	r.worker.Park(func() { // one kick for all of them
		for range ringSize {
			b := r.next()
			v := header.Vnet{Flags: header.VnetNeedsCsum, GSOType: header.GSOUDPL4, GSOSize: 1, CsumStart: 34, CsumOffset: header.UDPCsumOffset}
			n := v.Put(b)
			n += copy(b[n:], udp4(netip.AddrPortFrom(guest4, 5000), netip.MustParseAddrPort("239.1.2.3:5000"), gatewayMAC, make([]byte, segs)))
			r.put(n)
		}
	})
	r.kickTx()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s := r.worker.Snapshot()
		sent := s.UDP.FromGuest + s.UDP.SendFull + s.UDP.SendFailed
		if sent < ringSize*segs && time.Now().Before(end) {
			continue
		}
		// A turn ends with the train that goes beyond its share.
		if turns := s.Counters.Turns - before.Turns; sent != ringSize*segs || turns < ringSize*segs/(256+segs) {
			t.Errorf("%d datagrams sent, want %d, in %d turns", sent, ringSize*segs, turns)
		}
		return
	}
}

// TestDHCP: the guest gets its address, through the rings.
func TestDHCP(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.fill(8)
	client := netip.AddrPortFrom(netip.IPv4Unspecified(), dhcpv4.ClientPort)
	server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), dhcpv4.ServerPort)
	ask := func(m *dhcpv4.DHCPv4, err error) *dhcpv4.DHCPv4 {
		t.Helper()
		r.must(err)
		r.send(udp4(client, server, header.Broadcast, m.ToBytes()))
		const l4 = header.EthLen + header.IPv4Len
		f := r.expect("DHCP answer", func(f []byte) bool {
			return len(f) > l4+8 && f[12] == 8 && f[13] == 0 && f[23] == header.ProtoUDP && f[l4+1] == dhcpv4.ServerPort
		})
		answer, err := dhcpv4.FromBytes(f[l4+header.UDPLen:])
		r.must(err)
		return answer
	}
	offer := ask(dhcpv4.NewDiscovery(net.HardwareAddr(guestMAC[:])))
	if offer.MessageType() != dhcpv4.MessageTypeOffer || offer.YourIPAddr.String() != guest4.String() {
		t.Fatalf("offer: %v", offer.Summary())
	}
	ack := ask(dhcpv4.NewRequestFromOffer(offer))
	if ack.MessageType() != dhcpv4.MessageTypeAck || ack.Router()[0].String() != gateway4.String() {
		t.Fatalf("acknowledgement: %v", ack.Summary())
	}
}

// TestRouterAdvertisement: a guest learns its prefix as soon as its ring is
// there.
func TestRouterAdvertisement(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.fill(8)
	const l4 = header.EthLen + header.IPv6Len
	f := r.expect("router advertisement", func(f []byte) bool {
		return f[12] == 0x86 && f[13] == 0xdd && f[20] == header.ProtoICMPv6 && f[l4] == 134
	})
	m, err := ndp.ParseMessage(f[l4:])
	r.must(err)
	for _, o := range m.(*ndp.RouterAdvertisement).Options {
		if p, ok := o.(*ndp.PrefixInformation); ok && p.Prefix == prefix6.Addr() {
			return
		}
	}
	t.Errorf("no prefix in %+v", m)
}

// TestPark: what runs while the worker is parked runs alone, before and after
// its end.
func TestPark(t *testing.T) {
	w, _ := newWorker(t, testConfig())
	inside, runs := 0, 0 // unguarded: the race detector looks on
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				w.Park(func() {
					if inside++; inside != 1 {
						t.Error("not alone")
					}
					runs++
					inside--
				})
			}
		})
	}
	all.Go(w.Close)
	all.Wait()
	w.Close()
	w.Park(func() { runs++ })
	if runs != 401 {
		t.Errorf("%d runs, want 401", runs)
	}
}

// TestClose: nothing stays of a worker.
func TestClose(t *testing.T) {
	count := func() (fds, goroutines int) {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(d), runtime.NumGoroutine()
	}
	fds, goroutines := count()
	for range 20 {
		w, err := netstack.NewWorker(testConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if f, g := count(); f <= fds && g <= goroutines {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d descriptors and %d goroutines, %d and %d before", f, g, fds, goroutines)
		}
	}
}

// TestDisabled: a disabled receive ring is left alone, a disabled transmit ring
// is drained.
func TestDisabled(t *testing.T) {
	w, broken := newWorker(t, testConfig())
	r := &rig{t: t, worker: w, broken: broken}
	r.plug(heap())
	r.fill(8)
	r.worker.Park(r.attach)
	r.send(askGateway())
	if f := r.receive(100 * time.Millisecond); f != nil {
		t.Errorf("frame of %d bytes on a disabled ring", len(f))
	}
	r.worker.Park(func() { r.enable(true, false) })
	eventfd(r.txKick).signal()
	r.expect("ARP request", func(f []byte) bool { return f[12] == 8 && f[13] == 6 && f[21] == 1 })
	if n := r.worker.Snapshot().Counters.TxDisabled; n != 1 {
		t.Errorf("%d frames drained, want 1", n)
	}
	r.worker.Park(func() { r.enable(true, true) })
	r.send(askGateway())
	r.expect("answer about the gateway", isGateway)
}

// TestPolledRings: rings without kick descriptors are looked at all the same.
func TestPolledRings(t *testing.T) {
	w, broken := newWorker(t, testConfig())
	r := &rig{t: t, worker: w, broken: broken}
	r.plug(heap())
	r.rxKick, r.txKick = -1, -1
	r.worker.Park(func() { r.attach(); r.enable(true, true) })
	r.fill(8)
	r.send(askGateway())
	r.expect("answer about the gateway", isGateway)
}

// TestStarved: frames wait for buffers, and nothing spins meanwhile.
func TestStarved(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.send(askGateway())
	time.Sleep(50 * time.Millisecond)
	before := r.worker.Snapshot().Counters.Turns
	time.Sleep(300 * time.Millisecond)
	// It looks for the guest some times a second.
	if n := r.worker.Snapshot().Counters.Turns - before; n > 30 {
		t.Errorf("%d turns without buffers", n)
	}
	r.fill(8)
	r.expect("answer about the gateway", isGateway)
}

// TestBrokenRing: the owner of the worker is told once, with the cause, and the
// next rings work.
func TestBrokenRing(t *testing.T) {
	for _, tx := range []bool{false, true} {
		r := newRig(t, testConfig(), 0, heap())
		d, kick := r.rx, r.rxKick
		if tx {
			d, kick = r.tx, r.txKick
		}
		d.Ring().SetAvail(0, ringSize+1)
		eventfd(kick).signal()
		b := r.mustBreak()
		if b.tx != tx || !errors.Is(b.err, virtqueue.ErrBroken) {
			t.Errorf("told %+v, want transmit %v and a broken ring", b, tx)
		}
		eventfd(kick).signal()
		r.worker.Park(func() {})
		r.checkRecovers()
	}
}

// mustBreak waits until the owner is told.
func (r *rig) mustBreak() brokenRing {
	r.t.Helper()
	select {
	case b := <-r.broken:
		return b
	case <-time.After(patience):
		r.t.Fatal("the worker's owner was not told")
		panic("unreachable")
	}
}

// checkRecovers takes the rings away and checks that new ones work.
func (r *rig) checkRecovers() {
	r.t.Helper()
	select {
	case b := <-r.broken:
		r.t.Errorf("told again: %+v", b)
	default:
	}
	r.worker.Park(func() { r.worker.DetachRx(); r.worker.DetachTx() })
	r.plug(heap())
	r.worker.Park(func() { r.attach(); r.enable(true, true) })
	r.fill(8)
	r.send(askGateway())
	r.expect("answer about the gateway", isGateway)
}

// TestMemoryVanishes: the file behind guest memory is cut short while rings lie
// in it. The rings are lost, the worker is not.
func TestMemoryVanishes(t *testing.T) {
	for _, tx := range []bool{false, true} {
		const size = 1 << 20
		fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(mem) }()
		r := newRig(t, testConfig(), 0, guestmem.Region{GuestAddr: 1 << 20, Size: size, UserAddr: 1 << 40, Mem: mem})
		r.fill(8)
		r.send(askGateway())
		r.expect("answer about the gateway", isGateway)
		if err := unix.Ftruncate(fd, 0); err != nil {
			t.Fatal(err)
		}
		kick := r.rxKick // wakes it: the receive ring is touched only for a frame
		if tx {
			kick = r.txKick
		}
		eventfd(kick).signal()
		if !tx {
			r.worker.Park(func() { r.worker.EnableRx(true) }) // makes frames
		}
		told := map[bool]error{}
		for range 2 {
			b := r.mustBreak()
			told[b.tx] = b.err
		}
		for _, side := range []bool{false, true} {
			if !errors.Is(told[side], netstack.ErrGuestMemory) {
				t.Errorf("transmit %v: told %v, want %v", side, told[side], netstack.ErrGuestMemory)
			}
		}
		if n := r.worker.Snapshot().Counters.Faults; n != 1 {
			t.Errorf("%d faults", n)
		}
		r.checkRecovers()
	}
}

// TestBadConfig: what cannot be served is an error, and nothing stays behind.
func TestBadConfig(t *testing.T) {
	cfg := testConfig()
	cfg.MapHostLoopback.V4 = netip.MustParseAddr("2001:db8::1")
	if w, err := netstack.NewWorker(cfg, nil); err == nil {
		w.Close()
		t.Error("an IPv6 address was taken for an IPv4 one")
	}
}

// TestUnknownFrames: what is not served is counted, and answers nothing.
func TestUnknownFrames(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.fill(16)
	other := header.MAC{2, 1, 1, 1, 1, 1}
	to := func(mac header.MAC, etherType uint16) []byte {
		b := make([]byte, 60)
		header.PutEth(b, mac, guestMAC, etherType)
		return b
	}
	from := netip.AddrPortFrom(guest4, 1)
	for _, f := range [][]byte{
		{1, 2, 3},
		to(gatewayMAC, 0x88cc),
		to(gatewayMAC, header.EtherTypeIPv4),
		bytes.Repeat([]byte{0xff}, 100),
		udp4(from, netip.MustParseAddrPort("192.0.2.9:9"), other, []byte("for another station")),
	} {
		r.send(f)
	}
	r.send(askGateway())
	r.expect("answer about the gateway", isGateway)
	c := r.worker.Snapshot().Counters
	if c.FramesFromGuest != 6 || c.NotForUs != 1 || c.NotServed == 0 || c.Dropped[header.TooShort] == 0 {
		t.Errorf("counters: %+v", c)
	}
}

// TestCapture: both directions are in the file, and the guest gets what it gets
// without a capture.
func TestCapture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pcapng")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	cfg.Capture = capture.New(capture.Config{File: f, Interface: "guest", SnapBytes: capture.MaxSnapBytes})
	if err := cfg.Capture.Begin(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, cfg, 0, heap())
	r.fill(8)
	r.send(askGateway())
	answer := bytes.Clone(r.expect("answer about the gateway", isGateway))
	if err := cfg.Capture.Close(); err != nil {
		t.Fatal(err)
	}
	r.send(askGateway())
	r.expect("answer after the capture", isGateway)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	asked, answered := bytes.Index(text, askGateway()), bytes.Index(text, answer)
	if asked < 0 || answered < asked {
		t.Errorf("the question is at %d, the answer at %d", asked, answered)
	}
}
