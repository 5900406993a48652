package tcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
)

// newRing gives the queue a new ring of the guest, which may fault.
func (x *script) newRing(f *ringtest.Fault) {
	x.ring = newGuestRing(x.TB, x.q, true, x.buffers*x.bufferBytes)
	x.q.Attach(f.Ring(x.ring.dev), x.ring, framequeue.Format{Mergeable: true})
	x.ring.give(x.buffers, x.bufferBytes)
}

// guarded runs a part of a turn, as a worker does.
func (x *script) guarded(part func()) (ok bool) {
	if !ringtest.Guard(&x.link.MemoryGone, part) {
		return true
	}
	x.q.Abandon()
	x.h.Fault()
	return false
}

// survivor is a guest's TCP that opens its connection as well, and says something
// from time to time until all is over.
type survivor struct {
	peer
	listener net.Listener
	client   *net.TCPConn // of an inbound flow
	up       bool
	abort    string // "host" or "guest": who aborts in the middle, if anyone
	over     bool   // the abort was made, or seen, by the guest
	told     bool   // the host has seen the guest's
	saidAtMs int64
}

// next acts at its time, and takes what the backend says.
func (p *survivor) next(got []segment) {
	g := p.x.guests[p.n]
	for _, s := range got {
		if s.flow != p.n {
			continue
		}
		switch {
		case p.over:
		case s.flags == "R" || s.flags == "R.":
			if p.abort == "" {
				p.receive(s)
				continue
			}
			p.over = true
		case s.flags == "S.": // also one that was repeated
			p.connected(s)
			p.ack()
		case s.flags == "S":
			p.connected(s)
			p.out = append(p.out, segment{flags: "S.", ack: 1, win: 65520, mss: peerMSS, wscale: 4})
		case p.up:
			p.receive(s)
		}
	}
	now := p.x.link.NowMs
	switch {
	case p.over:
		return
	case !p.up:
		if g.inbound || now < p.saidAtMs {
			return
		}
		p.saidAtMs = now + 1000
		p.out = append(p.out, segment{flags: "S", win: 65520, mss: peerMSS, wscale: 4})
		return
	case p.abort != "" && p.rcvNxt > 1 && now >= p.saidAtMs:
		p.saidAtMs = now + 1000
		if p.abort == "guest" {
			p.over = true
			p.out = append(p.out, segment{flags: "R.", seq: p.sndUna, end: p.sndUna, ack: p.rcvNxt, mss: -1, wscale: -1})
			return
		}
		p.ack()
	}
	p.timer()
	if p.abort == "" || p.sndNxt == 1 {
		p.send()
	}
}

func (p *survivor) connected(s segment) {
	if p.up {
		return
	}
	p.up = true
	p.window = uint32(s.win)
	if p.listener != nil {
		l := p.listener.(*net.TCPListener)
		p.x.try(l.SetDeadline(time.Now().Add(hostPatience)))
		c, err := l.Accept()
		p.x.try(err)
		p.client = c.(*net.TCPConn)
	}
	p.conn = rawConn(p.x.TB, p.client)
}

// running says that something is yet to come of the flow, on either side.
func (p *survivor) running() bool {
	switch p.abort {
	case "host":
		return !p.over
	case "guest":
		var b [1024]byte
		if p.over && !p.told {
			_, err := syscall.Read(p.conn, b[:])
			p.told = errors.Is(err, syscall.ECONNRESET)
		}
		return !p.told
	}
	return !p.done()
}

// survivors opens flows of all kinds: begun by the guest and by the host, ended
// in order and by either side's abort.
func (x *script) survivors(rng *rand.Rand) (all []*survivor) {
	for n := 1; n <= 5; n++ {
		p := &survivor{peer: peer{
			x: x, rng: rng, n: n, sndUna: 1, sndNxt: 1, sndEnd: 2 + uint32(rng.IntN(6000)), window: 65000,
			rcvNxt: 1, offer: 65520, written: 1, writeEnd: 1 + uint32(rng.IntN(6000)), read: 1, scale: 1,
		}}
		p.rcvEnd = p.writeEnd + 1
		g := &guestEnd{port: guestPorts + uint16(n), isn: guestISN + uint32(n), shift: 4}
		x.guests[n] = g
		if n%2 == 1 {
			var err error
			p.listener, err = net.Listen("tcp", net.JoinHostPort(x.loopback(), "0"))
			x.try(err)
			g.peerPort = portOf(p.listener.Addr())
		} else {
			c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(x.loopback()), Port: int(x.forwardPort)})
			x.try(err)
			p.client = c
			g.port, g.peerPort, g.inbound = forwardedTo, portOf(c.LocalAddr()), true
		}
		if p.abort = []string{"", "", "", "host", "guest"}[n-1]; p.abort != "" {
			p.sndEnd = 1 << 20 // it never gets to its FIN
		}
		all = append(all, p)
	}
	return all
}

// survive lets flows run to their end though memory vanishes on the way.
func survive(t *testing.T, s setup, seed int) {
	s.buffers, s.bufferBytes = 24, 1526
	x := newScript(t, s)
	x.openForward(forwardedTo)
	x.newRing(s.faults)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	start := openFiles(t)
	all := x.survivors(rng)
	startMs, downUntilMs, calm, turns := x.link.NowMs, int64(0), 0, 0
	for ; slices.ContainsFunc(all, (*survivor).running) || x.h.NumFlows() > 0; turns++ {
		if x.link.NowMs-startMs > 300_000 || turns > 100_000 {
			for _, p := range all {
				t.Logf("flow %d (%s): up %v, over %v, told %v, guest sent %d of %d, host read %d (end %v), wrote %d of %d, guest has %d", p.n, p.abort,
					p.up, p.over, p.told, p.sndUna, p.sndEnd, p.read, p.hostEOF, p.written, p.writeEnd, p.rcvNxt)
			}
			t.Fatalf("flows do not end: %d turns, %d flows, %+v", turns, x.h.NumFlows(), x.h.Counters)
		}
		busy := false
		alive := x.guarded(func() { busy = x.turn(0) })
		x.got = x.got[:0]
		x.collect()
		got := slices.Clone(x.got)
		if !x.q.HasRing() {
			if downUntilMs == 0 {
				downUntilMs = x.link.NowMs + 500
			} else if x.link.NowMs >= downUntilMs {
				downUntilMs = 0
				x.newRing(s.faults)
				x.h.GuestAppeared()
			}
		}
		if rng.IntN(20) == 0 {
			x.guarded(x.ring.empty)
		} else if !x.ring.refill && rng.IntN(5) == 0 {
			x.ring.full()
		}
		busy = busy || len(got) > 0 || !alive
		for _, p := range all {
			if p.up && !p.over {
				busy = p.hostSide() || busy
			}
			p.next(got)
			x.deliver(&p.peer)
		}
		x.guarded(x.h.EndBatch)
		if calm++; busy {
			calm = 0
		}
		if calm > 2 {
			x.link.NowMs += 5 + int64(rng.IntN(50))
		}
	}
	x.got = nil
	x.checkNothingLeft(all, start)
}

// hostSide is the host's application of p.
func (p *survivor) hostSide() bool {
	if p.abort == "" {
		return p.host()
	}
	if p.abort == "host" && p.written > 1 {
		if p.client != nil {
			_ = p.client.SetLinger(0)
			p.client.Close()
			p.client = nil
		}
		return false
	}
	if p.written == 1 {
		if k, err := syscall.Write(p.conn, []byte{pattern(p.n, 'h', 1)}); err == nil {
			p.written += uint32(k)
		}
	}
	return false
}

// deliver hands what p sends to the handler, if the guest has a ring to send on.
func (x *script) deliver(p *peer) {
	for _, s := range p.out {
		if !x.q.HasRing() {
			break
		}
		fr := x.parsed(x.frame(x.guests[p.n], p.n, s))
		x.faults.Frame(fr.Vecs)
		x.guarded(func() { x.h.FromGuest(&fr) })
	}
	p.out = p.out[:0]
}

// checkNothingLeft checks that the handler is as it was before.
func (x *script) checkNothingLeft(all []*survivor, files int) {
	x.Helper()
	for _, p := range all {
		if p.client != nil {
			p.client.Close()
		}
		if p.listener != nil {
			l := p.listener.(*net.TCPListener)
			_ = l.SetDeadline(time.Now().Add(time.Millisecond))
			if c, err := l.Accept(); err == nil {
				x.Errorf("flow %d has a second socket", p.n)
				c.Close()
			}
			p.listener.Close()
		}
	}
	h := x.h
	if n := h.wheel.Len(); n != 0 || len(h.pending) != 0 || h.accepting != -1 || len(h.waiting)+len(h.parked) != 0 {
		x.Errorf("%d timers, %d connecting, %d waiting, %d parked are left", n, len(h.pending), len(h.waiting), len(h.parked))
	}
	if n := len(h.stash) + len(h.early) + len(h.held) + h.stashBytes; n != 0 {
		x.Errorf("something is stashed: %d, %d, %d, %d bytes", len(h.stash), len(h.early), len(h.held), h.stashBytes)
	}
	if n := openFiles(x.TB); n > files {
		x.Errorf("%d descriptors, %d at the start", n, files)
	}
}

// TestFaultAnywhere makes guest memory vanish at every place where it is touched,
// one after the other, and come back half a second later. Every byte arrives,
// every end is seen, and nothing stays behind.
func TestFaultAnywhere(t *testing.T) {
	for _, place := range ringtest.Places() {
		ok, more := true, true
		for at := 0; ok && more; at++ {
			ok = t.Run(fmt.Sprintf("%s, %d", place, at), func(t *testing.T) {
				f := ringtest.NewFault(t, place, at)
				s := setup{noPeekOffset: at%2 == 1, faults: f}
				if at%3 == 0 {
					s.features = allOffloads
				}
				survive(t, s, at)
				more = f.Fired
			})
		}
	}
}
