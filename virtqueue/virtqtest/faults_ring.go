package virtqtest

import (
	"math"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

func indexFaults() []Fault {
	return []Fault{
		{Name: "available index ahead by more than the ring", Cause: virtqueue.CauseAvailJump, write: func(h *hostile) {
			h.d.availIdx += h.size + 1
		}},
		{Name: "available index far ahead", Cause: virtqueue.CauseAvailJump, write: func(h *hostile) {
			h.d.availIdx += math.MaxUint16 / 4 * 3
		}},
		{Name: "available index backwards", Cause: virtqueue.CauseAvailJump, write: func(h *hostile) {
			h.d.availIdx--
		}},
		{Name: "head just beyond the table", Cause: virtqueue.CauseHeadRange, write: func(h *hostile) {
			h.d.expose(h.size)
		}},
		{Name: "head far beyond the table", Cause: virtqueue.CauseHeadRange, write: func(h *hostile) {
			h.d.expose(math.MaxUint16)
		}},
		{Name: "chain made available twice", Cause: virtqueue.CauseHeadInFlight, write: func(h *hostile) {
			h.raw(h.good)
			h.d.expose(0)
		}},
		{Name: "nothing but long chains of the wrong direction", Cause: virtqueue.CauseDirection, write: func(h *hostile) {
			wrong := h.linked(h.size)
			for i := range wrong {
				wrong[i].Flags ^= FlagWrite
			}
			h.raw(wrong...)
			h.d.expose(1)
		}},
	}
}

func chainFaults() []Fault {
	next := func(i uint16) func(*Desc) {
		return func(d *Desc) { d.Flags |= FlagNext; d.Next = i }
	}
	return []Fault{
		{Name: "next just beyond the table", Cause: virtqueue.CauseNextRange, write: func(h *hostile) {
			h.raw(h.goodBut(next(h.size)))
		}},
		{Name: "next far beyond the table", Cause: virtqueue.CauseNextRange, write: func(h *hostile) {
			h.raw(h.goodBut(next(math.MaxUint16)))
		}},
		{Name: "descriptor that links to itself", Cause: virtqueue.CauseChainTooLong, write: func(h *hostile) {
			h.raw(h.goodBut(next(0)))
		}},
		{Name: "loop of three descriptors", Cause: virtqueue.CauseChainTooLong, write: func(h *hostile) {
			h.raw(h.goodBut(next(1)), h.goodBut(next(2)), h.goodBut(next(0)))
		}},
		{Name: "loop at the end of a chain", Cause: virtqueue.CauseChainTooLong, write: func(h *hostile) {
			h.raw(h.goodBut(next(1)), h.goodBut(next(2)), h.goodBut(next(2)))
		}},
		{Name: "readable buffer after a writable one, in an indirect table", Cause: virtqueue.CauseOrder, write: func(h *hostile) {
			r, w := h.good, h.good
			r.Flags, w.Flags = 0, FlagWrite
			h.chain(w, h.indirect(r))
		}},
	}
}

// orderFaults are about a chain as a whole.
func orderFaults() []Fault {
	return []Fault{
		{Name: "readable buffer after a writable one", Cause: virtqueue.CauseOrder, write: func(h *hostile) {
			r, w := h.good, h.good
			r.Flags, w.Flags = 0, FlagWrite
			h.chain(w, r)
		}},
		{Name: "readable buffer after all sorts", Cause: virtqueue.CauseOrder, write: func(h *hostile) {
			r, w := h.good, h.good
			r.Flags, w.Flags = 0, FlagWrite
			h.chain(r, w, w, r)
		}},
		{Name: "chain of more than 2^32 bytes", Cause: virtqueue.CauseChainTooBig, write: func(h *hostile) {
			h.chain(h.good, h.goodBut(func(d *Desc) { d.Len = math.MaxUint32 }))
		}},
	}
}

func bufferFaults() []Fault {
	buf := func(name string, cause virtqueue.Cause, change func(h *hostile, d *Desc)) Fault {
		return Fault{Name: name, Cause: cause, write: func(h *hostile) {
			h.chain(h.good, h.goodBut(func(d *Desc) { change(h, d) }))
		}}
	}
	return []Fault{
		buf("zero length", virtqueue.CauseZeroLength, func(_ *hostile, d *Desc) { d.Len = 0 }),
		buf("zero length in no region", virtqueue.CauseZeroLength, func(h *hostile, d *Desc) {
			d.Addr, d.Len = h.hole, 0
		}),
		buf("in no region", virtqueue.CauseUnmapped, func(h *hostile, d *Desc) { d.Addr = h.hole }),
		buf("out of the end of a region", virtqueue.CauseUnmapped, func(h *hostile, d *Desc) {
			d.Addr, d.Len = h.end, descBytes+1
		}),
		buf("address and length wrap around", virtqueue.CauseUnmapped, func(h *hostile, d *Desc) {
			d.Addr, d.Len = math.MaxUint64-7, 16
		}),
		buf("last possible address", virtqueue.CauseUnmapped, func(_ *hostile, d *Desc) {
			d.Addr, d.Len = math.MaxUint64, 1
		}),
		buf("nearly 4 GiB from within a region", virtqueue.CauseUnmapped, func(_ *hostile, d *Desc) {
			d.Len = math.MaxUint32 - 1<<16
		}),
	}
}
