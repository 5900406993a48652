package icmp

import (
	"slices"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

const (
	// idleMs is how long a flow lives after its last request.
	idleMs = 60_000
	// coarseMs rounds deadlines up, so that flows share a wake-up.
	coarseMs = 1 << 10
)

// flow is one pinging process of the guest and its destination.
type flow struct {
	key     flowtable.Key // LocalPort: the guest's identifier
	host    header.Addr   // the destination
	fd      int32
	gen     uint32
	inUse   bool
	waiting bool // is in the list of ready or of parked flows
	ttl     uint8
	frag    uint8  // 1 + hostsock.Fragmentation that is set, 0 if none
	seq     uint16 // of the last request
	expect  uint16 // bytes that the next reply is likely to have
	usedMs  int64
}

func (f *flow) v6() bool { return !f.key.Local.Is4() }

// add makes a flow, ending the one that is idle longest if there are too many.
func (h *Handler) add(k *flowtable.Key, host header.Addr, fd int) uint32 {
	if h.live >= h.cfg.MaxFlows {
		h.recycle()
	}
	if len(h.unused) == 0 {
		h.unused = append(h.unused, uint32(len(h.flows)))
		h.flows = append(h.flows, flow{})
	}
	i := h.unused[len(h.unused)-1]
	h.unused = h.unused[:len(h.unused)-1]
	f := &h.flows[i]
	*f = flow{key: *k, host: host, fd: int32(fd), gen: f.gen + 1, inUse: true, usedMs: h.cfg.Link.NowMs}
	h.live++
	h.table.Insert(k, i)
	h.wheel.Set(i, f.deadlineMs())
	h.Counters.Opened++
	return i
}

func (h *Handler) release(i uint32) {
	f := &h.flows[i]
	h.wheel.Cancel(i)
	h.table.Delete(&f.key)
	hostsock.Close(int(f.fd))
	if f.waiting { // another flow may get its place, and wait as well
		mine := func(j uint32) bool { return j == i }
		h.ready, h.parked = slices.DeleteFunc(h.ready, mine), slices.DeleteFunc(h.parked, mine)
	}
	f.inUse, f.waiting = false, false
	h.unused = append(h.unused, i)
	h.live--
}

// recycle ends the flow that is idle longest. It reports whether there was one.
func (h *Handler) recycle() bool {
	oldest := -1
	for i := range h.flows {
		if f := &h.flows[i]; f.inUse && (oldest < 0 || f.usedMs < h.flows[oldest].usedMs) {
			oldest = i
		}
	}
	if oldest < 0 {
		return false
	}
	h.release(uint32(oldest))
	h.Counters.Recycled++
	return true
}

func (f *flow) deadlineMs() int64 { return (f.usedMs + idleMs) | (coarseMs - 1) }

// fire ends flow i, or finds that it was used meanwhile.
func (h *Handler) fire(i uint32) {
	if d := h.flows[i].deadlineMs(); d > h.cfg.Link.NowMs {
		h.wheel.Set(i, d)
		return
	}
	h.release(i)
}
