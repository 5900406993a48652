package virtqtest

import (
	"math"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// tableFaults are about the descriptor that names an indirect table, and about
// buffers in the table.
func tableFaults() []Fault {
	table := func(name string, cause virtqueue.Cause, change func(h *hostile, d *Desc)) Fault {
		return Fault{Name: name, Cause: cause, write: func(h *hostile) {
			d := h.indirect(h.good)
			change(h, &d)
			if h.r == nil { // not in a list, virtio 1.2, 2.8.19
				h.chain(d)
				return
			}
			h.chain(h.good, d)
		}}
	}
	return []Fault{
		{
			Name: "indirect without the feature", Cause: virtqueue.CauseIndirectFeature, NoIndirect: true,
			write: func(h *hostile) { h.chain(h.indirect(h.good)) },
		},
		{Name: "indirect and next together", Cause: virtqueue.CauseIndirectNext, write: func(h *hostile) {
			h.chain(h.indirect(h.good), h.good)
		}},
		{Name: "zero length in an indirect table", Cause: virtqueue.CauseZeroLength, write: func(h *hostile) {
			h.chain(h.indirect(h.goodBut(func(d *Desc) { d.Len = 0 })))
		}},
		{Name: "in no region, in an indirect table", Cause: virtqueue.CauseUnmapped, write: func(h *hostile) {
			h.chain(h.indirect(h.goodBut(func(d *Desc) { d.Addr = h.hole })))
		}},
		table("indirect table of no bytes", virtqueue.CauseIndirectLength, func(_ *hostile, d *Desc) { d.Len = 0 }),
		table("indirect table of one and a half descriptors", virtqueue.CauseIndirectLength, func(_ *hostile, d *Desc) {
			d.Len = descBytes * 3 / 2
		}),
		table("indirect table longer than the queue", virtqueue.CauseIndirectLength, func(h *hostile, d *Desc) {
			d.Len = descBytes * (uint32(h.size) + 1)
		}),
		table("indirect table of nearly 4 GiB", virtqueue.CauseIndirectLength, func(_ *hostile, d *Desc) {
			d.Len = math.MaxUint32 &^ (descBytes - 1)
		}),
		table("indirect table in no region", virtqueue.CauseIndirectUnmapped, func(h *hostile, d *Desc) { d.Addr = h.hole }),
		table("indirect table out of the end of a region", virtqueue.CauseIndirectUnmapped, func(h *hostile, d *Desc) {
			d.Addr, d.Len = h.end, 2*descBytes
		}),
		table("indirect table that wraps around", virtqueue.CauseIndirectUnmapped, func(_ *hostile, d *Desc) {
			d.Addr = math.MaxUint64 - descBytes/2
		}),
	}
}

// indirectFaults are about the links in the table.
func indirectFaults() []Fault {
	return []Fault{
		{Name: "indirect inside indirect", Cause: virtqueue.CauseIndirectNested, write: func(h *hostile) {
			h.chain(h.indirect(Desc{Addr: h.table, Len: descBytes, Flags: FlagIndirect}))
		}},
		{Name: "next beyond the indirect table but in the ring's", Cause: virtqueue.CauseNextRange, write: func(h *hostile) {
			h.chain(h.indirect(h.goodBut(func(d *Desc) { d.Flags |= FlagNext; d.Next = 1 })))
		}},
		{Name: "loop in an indirect table", Cause: virtqueue.CauseChainTooLong, write: func(h *hostile) {
			h.chain(h.indirect(h.goodBut(func(d *Desc) { d.Flags |= FlagNext })))
		}},
		{Name: "too long together with the indirect table", Cause: virtqueue.CauseChainTooLong, write: func(h *hostile) {
			h.chain(h.good, h.good, h.indirect(h.linked(h.size-1)...))
		}},
		{Name: "more than 2^32 bytes with an indirect table", Cause: virtqueue.CauseChainTooBig, write: func(h *hostile) {
			h.chain(h.good, h.indirect(h.goodBut(func(d *Desc) { d.Len = math.MaxUint32 })))
		}},
	}
}
