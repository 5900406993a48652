package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
)

// A flow with a socket of its own moves between the handlers of two workers as a
// TCP flow does. One that goes through a listener is bound to the handler that
// has the listener, that of the first queue pair; frames for it come there.

// Moving is a flow on its way.
type Moving struct{ flow flow }

// Key returns the flow's key.
func (m *Moving) Key() *flowtable.Key { return &m.flow.key }

// Drop ends a flow that arrives nowhere, because everything ends.
func (m *Moving) Drop() { hostsock.Close(int(m.flow.fd)) }

// Borrow makes the handler, which is new, know the listeners of from, which stays
// their owner. From now on Rehome is called for both or none.
func (h *Handler) Borrow(from *Handler) {
	h.borrowed, h.era = true, from.era
	for j := range from.listeners {
		h.know(from.listeners[j].Listener)
	}
}

// unknown returns the flow of a datagram for which this worker has none.
func (h *Handler) unknown(k *flowtable.Key, fr *link.Frame) (uint32, bool) {
	o := h.cfg.Link.Others
	if o == nil {
		return h.open(k, fr)
	}
	if h.leavesByListener(k, fr) && o.ToFirst(fr) || o.Elsewhere(*k, fr) {
		return 0, false
	}
	i, ok := h.open(k, fr)
	if !ok {
		o.Disown(*k)
	}
	return i, ok
}

// bind tells the others that the flow k goes through a listener.
func (h *Handler) bind(k *flowtable.Key) {
	if o := h.cfg.Link.Others; o != nil {
		o.Own(*k, true)
	}
}

// leavesByListener reports whether a flow that the guest begins uses a listener.
func (h *Handler) leavesByListener(k *flowtable.Key, fr *link.Frame) bool {
	if !h.borrowed || len(h.byPort[k.LocalPort]) == 0 {
		return false
	}
	host, why := h.cfg.Map.FromGuest(&fr.Packet)
	return why == addrmap.OK && host == k.Remote && h.listenerFrom(k, &host) >= 0
}

// Detach takes the flow k out, or returns nil if there is none, or it is bound to
// a listener. It touches no ring.
func (h *Handler) Detach(k *flowtable.Key) *Moving {
	i, ok := h.table.Lookup(k)
	if !ok || h.flows.at(i).fd < 0 {
		return nil
	}
	if h.train.segs > 0 && h.train.flow == i {
		h.depart() // before another flow gets its place
	}
	f := h.flows.at(i)
	m := &Moving{flow: *f}
	h.cfg.Poller.Remove(int(f.fd))
	h.takeOut(i, f)
	return m
}

// Attach takes over a flow that another handler of the same clock has detached.
// It touches no ring.
func (h *Handler) Attach(m *Moving) {
	i, f := h.flows.get()
	gen := f.gen
	*f = m.flow
	f.gen, f.next, f.prev = gen, 0, 0
	f.clear(onReady | onParked)
	h.table.Insert(&f.key, i)
	h.Counters.PeakFlows = max(h.Counters.PeakFlows, uint64(h.flows.live))
	if f.has(isLasting) {
		h.lasting.push(&h.flows, i)
	} else {
		h.oneShot.push(&h.flows, i)
	}
	h.wheel.Set(i, f.deadlineMs())
	if err := h.cfg.Poller.Add(int(f.fd), link.Token(h.cfg.FlowHandler, f.gen, i), poller.Readable); err != nil {
		h.Counters.Limited++
		h.release(i)
		return
	}
	h.makeReady(i, f)
}

// MoveAll moves all flows to another handler, while both stand still. It calls
// moving for each of them before it is there, where it may end at once.
func (h *Handler) MoveAll(to *Handler, moving func(k flowtable.Key)) {
	h.eachFlow(func(f *flow) {
		k := f.key
		if m := h.Detach(&k); m != nil {
			moving(k)
			to.Attach(m)
		}
	})
}

// Keys calls visit for the key of each flow, and tells whether it is bound.
func (h *Handler) Keys(visit func(k flowtable.Key, bound bool)) {
	h.eachFlow(func(f *flow) { visit(f.key, f.fd < 0) })
}

func (h *Handler) eachFlow(visit func(f *flow)) {
	for _, c := range h.flows.chunks {
		for j := range c {
			if c[j].has(inUse) {
				visit(&c[j])
			}
		}
	}
}

// Share makes the handler one of n, which have the descriptors of the process
// between them.
func (h *Handler) Share(n int) { h.cfg.MaxFlows = max(h.maxFlows/n, 1) }
