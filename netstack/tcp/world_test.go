package tcp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	onFlow     = 3
	onListener = 4
	startMs    = 1_000_000
)

// What the two sides are called. The guest reaches the host's loopback under
// the address of the gateway, and sees its peers on the host there.
var (
	gateway4 = netip.MustParseAddr("10.0.2.2")
	guest4   = netip.MustParseAddr("10.0.2.15")
	gateway6 = netip.MustParseAddr("fd00::2")
	guest6   = netip.MustParseAddr("fd00::15")
	ourMAC   = header.MAC{2, 0, 0, 0, 0, 1}
	guestMAC = header.MAC{2, 0, 0, 0, 0, 2}
)

// Features that a driver may have taken.
const (
	csumOnly    = header.FeatureGuestCsum
	tsoOnly     = header.FeatureGuestTSO4 | header.FeatureGuestTSO6
	allOffloads = csumOnly | tsoOnly
)

// hostErrno is why a connect of the host failed.
type hostErrno = hostsock.Errno

const (
	ehostunreach = hostsock.EHOSTUNREACH
	enetunreach  = hostsock.ENETUNREACH
	eacces       = hostsock.EACCES
	eperm        = hostsock.EPERM
	econnrefused = hostsock.ECONNREFUSED
	etimedout    = hostsock.ETIMEDOUT
	einval       = hostsock.EINVAL
	eafnosupport = hostsock.EAFNOSUPPORT
)

func openSocket(t testing.TB) int {
	t.Helper()
	fd, errno := hostsock.OpenStream(false)
	if errno != 0 {
		t.Fatal(errno)
	}
	return fd
}

// setup says how a world differs from the usual one.
type setup struct {
	v6           bool
	mtu          int
	features     uint64
	buffers      int // that the guest posts, each of bufferBytes
	bufferBytes  int
	notMergeable bool
	noPeekOffset bool
	noGuest      bool // its address is not known yet
	maxFlows     int
	maxConnect   int
	bigBytes     int             // Config.MaxFrameBytes
	faults       *ringtest.Fault // of guest memory
}

// world is a handler with all that surrounds it: a guest that exists only as
// frames on a ring, a host with real sockets, and a clock that tests move.
type world struct {
	testing.TB
	setup
	h    *Handler
	link *link.Link
	q    *framequeue.Queue
	poll *poller.Poller
	ring *guestRing

	events, nextEvent int // of the poller

	listener net.Listener
	// forwardPort is the host's port whose connections go to the guest, or 0.
	forwardPort uint16
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	if s.mtu == 0 {
		s.mtu = 1500
	}
	if s.buffers == 0 {
		s.buffers = 128
	}
	if s.bufferBytes == 0 {
		s.bufferBytes = 2048
	}
	w := &world{TB: t, setup: s, q: framequeue.New()}
	w.link = &link.Link{
		OurMAC: ourMAC, GuestMAC: guestMAC, MTU: s.mtu, Features: s.features, NowMs: startMs,
		Guest4: header.AddrFromNetip(guest4), Guest6: header.AddrFromNetip(guest6),
		Gateway4: header.AddrFromNetip(gateway4), OurLinkLocal: header.AddrFromNetip(gateway6),
	}
	if s.noGuest {
		w.link.GuestMAC = header.Broadcast
	}
	amap, err := addrmap.New(addrmap.Config{
		Own:          addrmap.Pair{V4: gateway4, V6: gateway6},
		Guest:        addrmap.Pair{V4: guest4, V6: guest6},
		HostLoopback: addrmap.Pair{V4: gateway4, V6: gateway6},
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.poll, err = poller.New(); err != nil {
		t.Fatal(err)
	}
	w.h = New(Config{
		Link: w.link, Queue: w.q, Poller: w.poll, Map: amap,
		FlowHandler: onFlow, ListenHandler: onListener,
		MaxFlows: s.maxFlows, MaxConnecting: s.maxConnect, MaxFrameBytes: s.bigBytes,
		NoPeekOffset: s.noPeekOffset || !hostsock.HasPeekOffset(),
	})
	w.ring = newGuestRing(t, w.q, !s.notMergeable, s.buffers*s.bufferBytes)
	w.ring.give(s.buffers, s.bufferBytes)
	w.listen()
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	if w.h == nil {
		return
	}
	w.h.Close()
	if n := w.h.NumFlows(); n != 0 {
		w.Errorf("%d flows after Close", n)
	}
	if n := w.ring.dev.Outstanding(); n != 0 {
		w.Errorf("%d buffers of the guest are held", n)
	}
	w.poll.Close()
	w.listener.Close()
	w.h = nil
}

// listen opens the host's server.
func (w *world) listen() {
	w.Helper()
	var err error
	if w.listener, err = net.Listen("tcp", net.JoinHostPort(w.loopback(), "0")); err != nil {
		w.Skipf("host cannot listen: %v", err)
	}
}

func (w *world) loopback() string {
	if w.v6 {
		return "::1"
	}
	return "127.0.0.1"
}

// openForward makes a listening socket whose connections go to targetPort of
// the guest.
func (w *world) openForward(targetPort uint16) {
	w.Helper()
	addr := header.AddrFromNetip(netip.MustParseAddr(w.loopback()))
	fd, err := hostsock.ListenStream(hostsock.Endpoint{Addr: addr}, hostsock.ListenOptions{V6: w.v6})
	if err != nil {
		w.Fatal(err)
	}
	e, errno := new(hostsock.Calls).LocalEndpoint(fd)
	if errno != 0 {
		w.Fatal(errno)
	}
	w.forwardPort = e.Port
	if err := w.h.Listen(Listener{FD: fd, Port: targetPort}); err != nil {
		w.Fatal(err)
	}
}

// turn is a turn of a worker, as package netstack makes it: events, buffers,
// timers, flows. It waits for events for at most wait.
func (w *world) turn(wait time.Duration) (busy bool) {
	w.Helper()
	if w.nextEvent == w.events { // else a fault has ended the last turn early
		w.nextEvent, w.events = 0, w.poll.Wait(int(wait.Milliseconds()))
	}
	n := w.events
	for w.nextEvent < w.events {
		token, ready, _ := w.poll.At(w.nextEvent)
		w.nextEvent++
		switch handler, _, _ := link.SplitToken(token); handler {
		case onFlow:
			w.h.Event(token, ready)
		case onListener:
			w.h.ListenEvent(token)
		}
	}
	if w.q.Starved() && w.q.Arm() && w.q.Refill() {
		w.h.Refilled()
	}
	w.h.EndBatch()
	if d := w.h.NextDeadlineMs(); d >= 0 && d <= w.link.NowMs {
		w.h.Advance()
	}
	more := w.h.Run()
	w.q.Flush()
	w.checkFlows()
	return n > 0 || more
}

// settle makes turns until nothing happens any more.
func (w *world) settle() {
	w.Helper()
	for w.turn(0) {
	}
}

// pass moves the clock on by d, with a turn at every deadline on the way.
func (w *world) pass(d time.Duration) {
	w.Helper()
	end := w.link.NowMs + d.Milliseconds()
	for n := 0; ; n++ {
		next := w.h.NextDeadlineMs()
		if next < 0 || next > end {
			break
		}
		if n > 2000 {
			w.Fatalf("timer spins: due at %d, now %d", next, w.link.NowMs)
		}
		w.link.NowMs = max(next, w.link.NowMs)
		w.turn(0)
		w.settle()
	}
	w.link.NowMs = end
	w.settle()
}

// checkFlows checks what holds of every flow at the end of a turn.
func (w *world) checkFlows() {
	w.Helper()
	waiting, parked := 0, 0
	for n, c := range w.h.flows.chunks {
		for j := range c {
			f, i := &c[j], uint32(n*chunkFlows+j)
			if f.state == synSent {
				if waiting++; w.h.waiting[f.listAt] != i {
					w.Fatalf("flow %d waits for the guest and is not in the list", i)
				}
			}
			if f.has(onParked) {
				if parked++; w.h.parked[f.listAt] != i {
					w.Fatalf("flow %d is parked and not in the list", i)
				}
			}
			if f.state != established {
				continue
			}
			if before(f.sndUna, f.headSeq) || before(f.sndNxt, f.sndUna) || before(f.sndMax, f.sndNxt) {
				w.Fatalf("headSeq %d, sndUna %d, sndNxt %d, sndMax %d", f.headSeq, f.sndUna, f.sndNxt, f.sndMax)
			}
			if before(f.rcvNxt, f.hostTaken) || before(f.rcvEdge, f.rcvNxt) && !f.has(guestFin) {
				w.Fatalf("hostTaken %d, rcvNxt %d, rcvEdge %d", f.hostTaken, f.rcvNxt, f.rcvEdge)
			}
			if stash := uint32(len(w.h.stash[w.indexOf(f)])); !f.has(guestFin) && f.rcvNxt-f.hostTaken != stash {
				w.Fatalf("%d bytes are taken and not passed on, the stash has %d", f.rcvNxt-f.hostTaken, stash)
			}
		}
	}
	if waiting != len(w.h.waiting) || parked != len(w.h.parked) {
		w.Fatalf("%d flows wait for the guest, %d are listed; %d are parked, %d are listed", waiting, len(w.h.waiting), parked, len(w.h.parked))
	}
}

func (w *world) indexOf(f *flow) uint32 {
	i, _ := w.h.table.Lookup(&f.key)
	return i
}

// fromGuest hands a frame to the handler.
func (w *world) fromGuest(frame []byte) {
	w.Helper()
	fr := w.parsed(frame)
	w.h.FromGuest(&fr)
}

// parsed makes what a worker makes of a frame, in three pieces of memory of its
// own.
func (w *world) parsed(frame []byte) link.Frame {
	w.Helper()
	mem := append(make([]byte, header.VnetLen), frame...)
	fr := link.Frame{Bytes: len(frame), Head: append([]byte(nil), frame[:min(len(frame), header.MaxHeaders)]...)}
	cut := header.VnetLen + len(frame)*2/3
	fr.Vecs = []iov.Vec{iov.Of(mem[:header.VnetLen]), iov.Of(mem[header.VnetLen:cut]), iov.Of(mem[cut:])}
	if why := header.Parse(&fr.Packet, fr.Head, fr.Bytes); why != header.OK {
		w.Fatalf("frame of the test: %v", why)
	}
	return fr
}
