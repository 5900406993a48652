package udp

import (
	"slices"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// add makes a flow for k, recycling an old one if there are too many.
func (h *Handler) add(k *flowtable.Key) (uint32, *flow) {
	if h.flows.live >= h.cfg.MaxFlows {
		h.recycle()
	}
	i, f := h.flows.get()
	f.key = *k
	f.usedMs, f.era = h.cfg.Link.NowMs, h.era
	h.table.Insert(k, i)
	if o := h.cfg.Link.Others; o != nil {
		o.Own(*k, false)
	}
	h.oneShot.push(&h.flows, i)
	h.wheel.Set(i, f.deadlineMs())
	h.Counters.Opened++
	h.Counters.PeakFlows = max(h.Counters.PeakFlows, uint64(h.flows.live))
	return i, f
}

// release ends flow i.
func (h *Handler) release(i uint32) {
	if h.train.segs > 0 && h.train.flow == i {
		h.depart()
	}
	f := h.flows.at(i)
	if f.fd >= 0 {
		hostsock.Close(int(f.fd))
	}
	if o := h.cfg.Link.Others; o != nil {
		o.Disown(f.key)
	}
	h.takeOut(i, f)
}

// takeOut frees flow i, but not what belongs to it.
func (h *Handler) takeOut(i uint32, f *flow) {
	h.wheel.Cancel(i)
	h.table.Delete(&f.key)
	if f.has(isLasting) {
		h.lasting.remove(&h.flows, i)
	} else {
		h.oneShot.remove(&h.flows, i)
	}
	if f.has(onParked) {
		// Another flow may get its place, and park as well.
		if at := slices.Index(h.parked, i); at >= 0 {
			h.parked = slices.Delete(h.parked, at, at+1)
		}
	}
	h.flows.put(i)
}

// oldest returns the flow to recycle next; there must be one.
func (h *Handler) oldest() uint32 {
	if h.oneShot.first != 0 {
		return h.oneShot.first - 1
	}
	return h.lasting.first - 1
}

// recycle ends a flow to make room. It reports whether there was one.
func (h *Handler) recycle() bool {
	if h.flows.live == 0 {
		return false
	}
	h.release(h.oldest())
	h.Counters.Recycled++
	return true
}

// used notes a datagram of f, in the direction that count counts.
func (h *Handler) used(i uint32, f *flow, count *uint8) {
	f.usedMs = h.cfg.Link.NowMs
	if *count == 255 {
		return
	}
	*count++
	if !f.has(isLasting) && f.isStream() {
		f.set(isLasting)
		h.oneShot.remove(&h.flows, i)
		h.lasting.push(&h.flows, i)
	}
	// The deadline mostly moves back, which fire finds out by itself. After an
	// answer it may have come nearer.
	if d := f.deadlineMs(); d < h.wheel.Deadline(i) {
		h.wheel.Set(i, d)
	}
}

// fire ends flow i, or finds that it was used meanwhile.
func (h *Handler) fire(i uint32) {
	f := h.flows.at(i)
	if d := f.deadlineMs(); d > h.cfg.Link.NowMs {
		h.wheel.Set(i, d)
		return
	}
	h.Counters.Expired++
	h.release(i)
}
