package netstack_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// goneRing is a ring whose memory is not there any more when gone is set.
type goneRing struct {
	netstack.RxRing
	gone []byte
	sum  byte
}

func (r *goneRing) Take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	if r.gone != nil {
		r.sum += r.gone[0]
	}
	return r.RxRing.Take(dst)
}

// TestFaultLosesNoEvent: the poller tells of readiness once. A fault while one
// event is handled must not lose those that came with it.
func TestFaultLosesNoEvent(t *testing.T) {
	gone, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(gone) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	cfg := testConfig()
	cfg.IPv6.Enabled = false
	cfg.Forwards = []forward.Rule{{
		Proto: forward.TCP, ListenAddr: netip.MustParseAddr("127.0.0.1"), FirstPort: port, LastPort: port, TargetFirstPort: 80,
	}}
	var ring *goneRing
	w, broken := newWorker(t, cfg)
	a := &alloc{rig: &rig{t: t, worker: w, broken: broken}}
	a.ip = header.IP{Src: header.AddrFromNetip(guest4), Dst: header.AddrFromNetip(loopback4), Proto: header.ProtoTCP, TTL: 64}
	a.wrapRx = func(r netstack.RxRing) netstack.RxRing {
		ring = &goneRing{RxRing: r}
		return ring
	}
	start := func() {
		a.plug(heap())
		w.Park(func() { a.attach(); a.enable(true, true) })
		a.fill(ringSize / 2)
	}
	start()
	a.send(askGateway())
	a.expect("answer about the gateway", isGateway)
	a.connect()
	time.Sleep(20 * time.Millisecond)

	// Two events for the next turn; the first one makes a frame.
	w.Park(func() {
		c, err := net.Dial("tcp", l.Addr().String())
		a.must(err)
		t.Cleanup(func() { c.Close() })
		_, err = unix.Write(a.fd, a.scratch[:payloadBytes])
		a.must(err)
		ring.gone = gone
	})
	for range 2 {
		if b := a.mustBreak(); b.err != netstack.ErrGuestMemory {
			t.Errorf("told %v, want %v", b.err, netstack.ErrGuestMemory)
		}
	}
	start()
	for syn, data := false, 0; !syn || data < payloadBytes; {
		s, n := a.segment()
		syn = syn || s.Flags() == header.TCPSyn
		data += n
	}
	if n := w.Snapshot().Counters.Faults; n != 1 {
		t.Errorf("%d faults, want 1", n)
	}
}
