package icmp

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/nstest"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
)

// TestFaultAnywhere makes guest memory vanish at every place where it is touched,
// one after the other. A ping may be lost then; no socket is left with a reply in
// it, and those that follow are answered.
func TestFaultAnywhere(t *testing.T) {
	nstest.Enter(t, nstest.Everybody) // hence no subtests: they run elsewhere
	for _, place := range ringtest.Places() {
		for at := 0; !t.Failed(); at++ {
			f := ringtest.NewFault(t, place, at)
			if goOn(newWorld(t), f); t.Failed() {
				t.Logf("%s, %d", place, at)
			}
			if !f.Fired {
				break
			}
		}
	}
}

// faultTurn is a turn of a worker whose guest's memory may vanish: what was lost
// with the ring is given back at once.
func (x *world) faultTurn(f *ringtest.Fault, part func()) {
	if ringtest.Guard(&x.link.MemoryGone, part) {
		x.queue.Abandon()
		x.h.Fault()
		x.turn(0) // without a ring
		x.newRing(f)
	}
}

func (x *world) newRing(f *ringtest.Fault) {
	x.guest, x.seen = ringtest.New(x.t, x.queue, 64, 1536, true), 0
	x.queue.Attach(f.Ring(x.guest), x.guest, framequeue.Format{Mergeable: true})
}

func (x *world) refill() {
	if x.queue.Refill() {
		x.h.Refilled()
	}
}

// goOn pings several addresses, in small and in fragmented packets, one of which
// does not exist, through a ring that runs empty.
func goOn(x *world, f *ringtest.Fault) {
	x.touch = f.Frame
	x.newRing(f)
	pings := func() {
		for id := range uint16(3) {
			x.faultTurn(f, func() { x.ping(guest4, loop4, 64, 100+id, 1, pattern(int(id)*2000)) })
		}
		x.faultTurn(f, func() { x.ping(guest4, addr("192.0.2.1"), 64, 7, 1, pattern(56)) })
		x.faultTurn(f, func() { x.ping(guest6, gate6, 64, 8, 1, pattern(56)) })
	}
	for range 2 {
		pings()
		x.faultTurn(f, func() { x.turn(5) })
		x.guest.TakeAway()
		pings()
		x.faultTurn(f, func() { x.turn(5) })
		x.guest.Add(64, 1536)
		x.faultTurn(f, x.refill)
		x.faultTurn(f, func() { x.turn(5) })
	}
	f.Over = true
	x.guest.Add(64, 1536)
	x.refill()
	for range 5 {
		x.turn(0)
	}
	for i := range x.h.flows {
		if fl := &x.h.flows[i]; fl.inUse {
			if n, errno := x.h.calls.Recv(int(fl.fd), nil); errno == 0 {
				x.t.Errorf("a reply of %d bytes was left in its socket", n)
			}
		}
	}
	x.seen = len(x.guest.Frames)
	for id := range uint16(3) {
		x.ping(guest4, loop4, 64, 100+id, 2, []byte("still there?"))
		if m := x.receive(); m.typ != header.ICMPEchoReply || m.seq != 2 {
			x.t.Errorf("message of type %d, sequence number %d", m.typ, m.seq)
		}
	}
	if x.h.Run() || len(x.h.ready)+len(x.h.parked) != 0 {
		x.t.Errorf("work is left: %v, %v", x.h.ready, x.h.parked)
	}
	x.skew += 3 * idleMs
	x.turn(0)
	if n := x.h.NumFlows(); n != 0 || x.h.NextDeadlineMs() != -1 {
		x.t.Errorf("%d flows are left, next deadline %d", n, x.h.NextDeadlineMs())
	}
}
