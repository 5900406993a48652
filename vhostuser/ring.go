package vhostuser

import (
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// ring is what the frontend has said about one virtqueue.
//
// Its states, section "Ring states" of the specification: it is started from
// SET_VRING_KICK to GET_VRING_BASE, and beside that enabled or not. The device
// gets the ring (q is not nil) when it is both and everything else that it takes
// is there too: features, memory, size, addresses. The frontend may send these
// in any order, so after each request settle starts what has become complete.
// Waiting for the first kick, as the specification has it, would be wrong: QEMU
// does not repeat it for a backend that comes back. A ring that is disabled
// later stays with the device, to be drained; one that was never enabled is not
// drained, so that a driver that is faster than its frontend loses nothing.
//
// Requests that reach a running ring:
//
//	KICK, BASE, ADDR   the ring goes on at once with the new descriptor,
//	                   index or place
//	NUM                if the ring is disabled or gets another size, a new
//	                   life begins, and takes a new KICK: UML never stops
//	                   rings, its driver just sets them up again
//	memory, dirty log  the ring goes on in the new memory, or with the new
//	                   log, a disabled one only when it is enabled: it may be a
//	                   remnant whose memory the driver has long freed. SET_FEATURES
//	                   and ADDR may concern the log alone
type ring struct {
	index int

	num     uint32 // entries, 0: not set
	addr    wire.VringAddr
	placed  bool   // SET_VRING_ADDR came, with a ring behind it
	base    uint32 // next available index while the device does not have the ring
	resumes bool   // base is our own count, not the frontend's

	started bool // SET_VRING_KICK came
	enabled bool
	broken  bool // not to be started before the frontend sets it up anew
	lost    bool // lies outside of the memory; said so already
	remnant bool // ran, and was stopped by us, not by the frontend

	kick int // -1: none
	err  int // -1: none
	call call
	q    *virtqueue.Queue // nil unless the device has it
}

func newRing(i int) ring {
	return ring{index: i, kick: -1, err: -1, call: newCall()}
}

// reset forgets how the ring was set up, but not whom to signal.
func (r *ring) reset() {
	closeFD(&r.kick)
	*r = ring{index: r.index, kick: -1, err: r.err, call: r.call}
}

// unstart makes a stopped ring wait for the next SET_VRING_KICK.
func (r *ring) unstart() {
	r.started, r.broken, r.lost, r.remnant = false, false, false, false
	closeFD(&r.kick)
}

func (r *ring) closeFDs() {
	closeFD(&r.kick)
	closeFD(&r.err)
	r.call.set(-1)
}

// ready reports whether the device may have the ring, as far as the ring itself
// is concerned.
func (r *ring) ready() bool {
	return r.q == nil && r.started && r.enabled && r.num != 0 && r.placed && !r.broken && !r.lost
}

// settle starts the rings that have become complete.
func (s *session) settle() {
	for i := range s.rings {
		if s.startable(&s.rings[i]) {
			s.park(s.startReady)
			return
		}
	}
}

func (s *session) startable(r *ring) bool {
	return s.negotiated && s.mem.gm != nil && s.mayWrite() && r.ready()
}

// startReady hands all complete rings to the device, which is parked.
func (s *session) startReady() {
	for i := range s.rings {
		r := &s.rings[i]
		if !s.startable(r) {
			continue
		}
		q, err := s.newQueue(r)
		if err != nil {
			r.lost = true
			s.afterPark(func() { s.log.warn("ring cannot be started", "ring", r.index, "error", err) })
			continue
		}
		r.q, r.remnant = q, false
		s.srv.broken[r.index].Store(nil)
		s.srv.dev.StartQueue(r.index, q, r.kick, &r.call)
		s.srv.dev.EnableQueue(r.index, true)
		// Who had the ring before may have died between its last completion and
		// the call for it: a driver whose ring is full waits for nothing else.
		r.call.Call()
		base := r.base
		s.afterPark(func() {
			if !s.up {
				s.up = true
				s.log.info("driver is up", "features", fmt.Sprintf("%#x", s.features), "rings", s.enabledRings())
			}
			s.log.debug("ring started", "ring", r.index, "size", r.num, "base", base)
		})
	}
}

// enabledRings counts the rings that frames pass.
func (s *session) enabledRings() (n int) {
	for i := range s.rings {
		if s.rings[i].enabled {
			n++
		}
	}
	return n
}

// stop takes the ring back from the device, which is parked, and keeps the index
// at which it goes on. Everything else about the ring stays.
func (s *session) stop(r *ring) {
	if r.q == nil {
		return
	}
	s.srv.dev.StopQueue(r.index)
	r.base, r.resumes = r.q.State(), true
	err := r.q.Err()
	if p := s.srv.broken[r.index].Swap(nil); p != nil {
		err = *p
	}
	r.q, r.remnant = nil, true
	base := r.base
	s.afterPark(func() { s.log.debug("ring stopped", "ring", r.index, "base", base) })
	if err != nil {
		s.breakRing(r, err)
	}
}

// suspend stops the ring so that startReady looks for it again. The device is
// parked.
func (s *session) suspend(r *ring) {
	s.stop(r)
	r.lost = false
}

func (s *session) suspendAll(rings []ring) {
	for i := range rings {
		s.suspend(&rings[i])
	}
}

// breakRing gives up a stopped ring and tells the frontend.
func (s *session) breakRing(r *ring, err error) {
	r.broken = true
	if !r.enabled {
		// Left behind by a driver that frees rings without stopping them.
		s.afterPark(func() { s.log.debug("disabled ring is broken and was stopped", "ring", r.index, "error", err) })
		return
	}
	signal(r.err)
	s.afterPark(func() { s.log.warn("ring is broken and was stopped", "ring", r.index, "error", err) })
}

// stopBroken stops the rings that the device has reported as broken.
func (s *session) stopBroken() {
	s.park(func() {
		for i := range s.rings {
			if s.srv.broken[i].Load() != nil {
				s.stop(&s.rings[i])
			}
		}
	})
}

// halt stops the ring until the next SET_VRING_KICK.
func (s *session) halt(r *ring) {
	if r.q != nil {
		s.park(func() { s.stop(r) })
	}
	r.unstart()
}

func (s *session) haltAll() {
	for i := range s.rings {
		s.halt(&s.rings[i])
	}
}

// enable sets whether frames pass the ring.
func (s *session) enable(r *ring, on bool) {
	if r.enabled == on {
		return
	}
	r.enabled = on
	if r.q != nil {
		s.park(func() { s.srv.dev.EnableQueue(r.index, on) })
	}
}

// park runs f while the device is parked, and afterwards what f has left to
// afterPark.
func (s *session) park(f func()) {
	s.srv.dev.Park(f)
	for _, g := range s.later {
		g()
	}
	s.later = s.later[:0]
}

// afterPark puts off what may take long, such as logging, until the workers run
// again.
func (s *session) afterPark(g func()) { s.later = append(s.later, g) }
