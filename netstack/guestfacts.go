package netstack

import (
	"sync"
	"sync/atomic"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// guestFacts are what a worker learns of the guest from its frames.
type guestFacts struct {
	mac                      header.MAC
	addr4, addr6, linkLocal6 header.Addr
	heard6                   bool
}

func (w *Worker) guestFacts() guestFacts {
	return guestFacts{w.link.GuestMAC, w.link.Guest4, w.link.Guest6, w.link.GuestLinkLocal, w.services.heard6}
}

func (w *Worker) setGuestFacts(f guestFacts) {
	w.link.GuestMAC, w.link.Guest4, w.link.Guest6, w.link.GuestLinkLocal, w.services.heard6 = f.mac, f.addr4, f.addr6, f.linkLocal6, f.heard6
}

// sharedFacts are those that all workers know, as of their last exchange.
type sharedFacts struct {
	mu      sync.Mutex
	facts   guestFacts
	version atomic.Uint64 // changes with facts
}

// hear takes over what the others have learned.
func (o *others) hear() {
	s := &o.group.facts
	if s.version.Load() == o.version {
		return
	}
	s.mu.Lock()
	now, version := s.facts, s.version.Load()
	s.mu.Unlock()
	first := o.known.mac == header.Broadcast && now.mac != header.Broadcast
	o.known, o.version = now, version
	o.w.setGuestFacts(now)
	if first {
		o.w.services.guestFound(&o.w.link)
		o.w.appeared = true
	}
}

// tell tells the others what this worker has learned in its turn. They see it
// when they wake up; only a guest that can be reached now is worth waking them.
func (o *others) tell() {
	mine := o.w.guestFacts()
	if mine == o.known {
		return
	}
	s := &o.group.facts
	s.mu.Lock()
	first := s.facts.mac == header.Broadcast && mine.mac != header.Broadcast
	merge(&s.facts.mac, &mine.mac, &o.known.mac)
	merge(&s.facts.addr4, &mine.addr4, &o.known.addr4)
	merge(&s.facts.addr6, &mine.addr6, &o.known.addr6)
	merge(&s.facts.linkLocal6, &mine.linkLocal6, &o.known.linkLocal6)
	merge(&s.facts.heard6, &mine.heard6, &o.known.heard6)
	s.version.Add(1)
	o.known, o.version = mine, 0 // so that hear looks at what others have told
	s.mu.Unlock()
	if first {
		for _, w := range o.group.workers {
			if w != o.w {
				w.others.wake()
			}
		}
	}
}

// merge takes over what has changed.
func merge[T comparable](shared, mine, known *T) {
	if *mine != *known {
		*shared = *mine
	}
}
