package virtqtest

import (
	"math"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// packedFaults are those that only a packed ring can have.
func packedFaults() []Fault {
	id := func(name string, cause virtqueue.Cause, id func(h *hostile) uint16) Fault {
		return Fault{Name: name, Cause: cause, write: func(h *hostile) {
			h.chain(h.good)
			h.id = id(h)
			h.chain(h.good)
		}}
	}
	next := func(d *Desc) { d.Flags |= FlagNext }
	return []Fault{
		id("buffer ID just beyond the ring", virtqueue.CauseHeadRange, func(h *hostile) uint16 { return h.size }),
		id("buffer ID far beyond the ring", virtqueue.CauseHeadRange, func(*hostile) uint16 { return math.MaxUint16 }),
		id("buffer ID of another chain", virtqueue.CauseHeadInFlight, func(*hostile) uint16 { return 0 }),
		{Name: "chain without an end", Cause: virtqueue.CauseChainTooLong, write: func(h *hostile) {
			for range h.size {
				h.put(h.goodBut(next))
			}
		}},
		{Name: "chain that runs into one in use", Cause: virtqueue.CauseDescInFlight, write: func(h *hostile) {
			h.chain(h.good, h.good)
			for range h.size - 1 {
				h.put(h.goodBut(next))
			}
		}},
		{Name: "chain just too long behind one in use", Cause: virtqueue.CauseDescInFlight, write: func(h *hostile) {
			h.chain(h.good)
			for range h.size - 1 {
				h.put(h.goodBut(next))
			}
			h.put(h.good)
		}},
		{Name: "nothing but long chains of the wrong direction", Cause: virtqueue.CauseDirection, write: func(h *hostile) {
			wrong := make([]Desc, h.size)
			for i := range wrong {
				wrong[i] = h.goodBut(func(d *Desc) { d.Flags ^= FlagWrite })
			}
			for range 2 {
				h.chain(h.indirect(wrong...))
			}
		}},
		{Name: "indirect and next together", Cause: virtqueue.CauseIndirectNext, write: func(h *hostile) {
			h.chain(h.indirect(h.good), h.good)
		}},
		{Name: "indirect at the end of a list", Cause: virtqueue.CauseIndirectNext, write: func(h *hostile) {
			h.chain(h.good, h.indirect(h.good))
		}},
		{Name: "readable buffer after a writable one, in an indirect table", Cause: virtqueue.CauseOrder, write: func(h *hostile) {
			r, w := h.good, h.good
			r.Flags, w.Flags = 0, FlagWrite
			h.chain(h.indirect(w, r))
		}},
		{Name: "more than 2^32 bytes in an indirect table", Cause: virtqueue.CauseChainTooBig, write: func(h *hostile) {
			h.chain(h.indirect(h.good, h.goodBut(func(d *Desc) { d.Len = math.MaxUint32 })))
		}},
	}
}
