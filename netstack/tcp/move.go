package tcp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
)

// A flow moves from the handler of one worker to that of another between two
// turns of each: Detach takes it out of the one, with all that belongs to it, and
// Attach puts it into the other. In between it exists as a Moving, which nobody
// else sees. Its socket is not watched meanwhile; the new poller tells what
// happened, since it reports a state that holds when a descriptor comes to it.

// Moving is a flow on its way.
type Moving struct {
	flow  flow
	stash []byte
	early *early
	held  scoreboard
}

// Key returns the flow's key.
func (m *Moving) Key() *flowtable.Key { return &m.flow.key }

// Drop ends a flow that arrives nowhere, because everything ends.
func (m *Moving) Drop() {
	if m.flow.fd >= 0 {
		hostsock.Abort(int(m.flow.fd))
	}
}

// unknown handles a segment for which this worker has no flow.
func (h *Handler) unknown(k *flowtable.Key, fr *link.Frame, t header.TCP) {
	o := h.cfg.Link.Others
	if o == nil {
		h.noFlow(k, fr, t)
		return
	}
	if o.Elsewhere(*k, fr) {
		return
	}
	h.noFlow(k, fr, t)
	if _, ok := h.table.Lookup(k); !ok {
		o.Disown(*k)
	}
}

// HandedOver begins a connection that another worker has accepted, as it gave it
// to link.Others.Place.
func (h *Handler) HandedOver(c any) {
	if a, ok := c.(*arrival); ok {
		h.accepting = a.fd
		h.begin(&a.key, a.fd)
		h.accepting = -1
	}
}

// DropHandedOver closes a connection that another worker has accepted, because
// everything ends.
func DropHandedOver(c any) {
	if a, ok := c.(*arrival); ok {
		hostsock.Abort(a.fd)
	}
}

// Detach takes the flow k out, or returns nil if there is none. It touches no
// ring.
func (h *Handler) Detach(k *flowtable.Key) *Moving {
	i, ok := h.table.Lookup(k)
	if !ok {
		return nil
	}
	f := h.flows.at(i)
	if f == h.gatherFlow {
		h.flushGather()
	}
	h.bigForget(f) // what the guest takes is known to each worker by itself
	m := &Moving{flow: *f}
	if f.fd >= 0 {
		h.cfg.Poller.Remove(int(f.fd))
	}
	if f.has(hasStash) {
		m.stash = h.stash[i]
		h.stashBytes -= len(m.stash)
		delete(h.stash, i)
	}
	if f.has(hasEarly) {
		m.early = h.early[i]
		for _, p := range m.early.pieces {
			h.stashBytes -= p.cost()
		}
		delete(h.early, i)
	}
	if f.has(hasHeld) {
		m.held = h.held[i]
		delete(h.held, i)
	}
	h.unlist(f)
	h.wheel.Cancel(i)
	h.table.Delete(k)
	h.flows.put(i)
	return m
}

// Attach takes over a flow that another handler of the same clock has detached.
// It touches no ring: what is to be said to the guest is said in the next turn.
func (h *Handler) Attach(m *Moving) {
	i, f := h.flows.get()
	gen := f.gen
	*f = m.flow
	f.gen, f.wheelAt = gen, 0
	f.clear(onReady | onAcks | onParked)
	h.table.Insert(&f.key, i)
	h.Counters.PeakFlows = max(h.Counters.PeakFlows, uint64(h.flows.live))
	if f.has(hasStash) {
		h.stash[i] = m.stash
		h.stashBytes += len(m.stash)
	}
	if f.has(hasEarly) {
		h.early[i] = m.early
		for _, p := range m.early.pieces {
			h.stashBytes += p.cost()
		}
	}
	if f.has(hasHeld) {
		h.held[i] = m.held
	}
	switch f.state {
	case connecting:
		f.listAt = uint32(len(h.pending))
		h.pending = append(h.pending, i)
	case established:
		h.oweAck(i, f)
		h.makeReady(i, f)
	case synSent:
		f.listAt = uint32(len(h.waiting))
		h.waiting = append(h.waiting, i)
	case resetting:
		f.set(rtoArmed) // to be told, or given up
		f.rtoAtMs = h.now()
	}
	if f.state != connecting {
		h.schedule(i, f)
	}
	if f.fd < 0 {
		return
	}
	if err := h.cfg.Poller.Add(int(f.fd), link.Token(h.cfg.FlowHandler, f.gen, i), everything); err != nil {
		h.Counters.Limited++
		h.abortHost(f)
		h.release(i, f)
	}
}

// MoveAll moves all flows to another handler, while both stand still. It calls
// moving for each of them before it is there, where it may end at once.
func (h *Handler) MoveAll(to *Handler, moving func(k flowtable.Key)) {
	h.eachFlow(func(f *flow) {
		k := f.key
		m := h.Detach(&k)
		moving(k)
		to.Attach(m)
	})
}

// Keys calls visit for the key of each flow.
func (h *Handler) Keys(visit func(k flowtable.Key)) {
	h.eachFlow(func(f *flow) { visit(f.key) })
}

func (h *Handler) eachFlow(visit func(f *flow)) {
	for _, c := range h.flows.chunks {
		for j := range c {
			if c[j].state != free {
				visit(&c[j])
			}
		}
	}
}

// Share makes the handler one of n, which have the descriptors of the process
// between them.
func (h *Handler) Share(n int) {
	h.cfg.MaxFlows = max(h.maxFlows/n, 1)
	h.cfg.MaxConnecting = max(h.maxConnecting/n, 1)
}

// Follow makes the handler choose sequence numbers as first does, so that those
// of a connection that is opened again, at another worker, have moved on.
func (h *Handler) Follow(first *Handler) { h.seed = first.seed }
