package virtqueue

import (
	"encoding/binary"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/internal/order"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// splitRing is the device side of a split ring (virtio 1.2, 2.7).
//
// Positions in the available and used rings run freely modulo 2^16; & mask
// makes slots of them. In the available ring, in this order:
//
//	done   up to here returned and published
//	next   up to here taken
//	seen   up to here known to be available
type splitRing struct {
	checks
	words splitWords
	fence order.Fence

	desc, availMem, usedMem []byte

	mask             uint16
	next, seen, done uint16
	// replay is how many positions from next on were taken before and given
	// back: their heads come from log, not from the driver's slots again.
	replay uint16
	log    []uint16 // head by slot, of what was taken; noHead: dropped
	// out has an entry per head: 0 when the device does not hold the chain,
	// else 1 + the bytes that the device may write to it.
	out         []uint64
	outstanding int // chains taken and neither returned nor given back

	usedIdx   uint16 // as in memory
	usedFlags uint16
	staged    uint16 // used elements behind usedIdx, not yet visible
	eventIdx  bool
	decided   bool // the first decision on calling was made

	err      error
	counters Counters
}

func newSplitRing(c *Config) splitRing {
	r := splitRing{
		checks: newChecks(c),
		desc:   c.Desc, availMem: c.Avail, usedMem: c.Used,
		mask: c.Size - 1,
		next: c.NextAvail, seen: c.NextAvail, done: c.NextAvail,
		log:      make([]uint16, c.Size),
		out:      make([]uint64, c.Size),
		usedIdx:  usedIdxOf(c.Used),
		eventIdx: c.EventIdx,
	}
	r.words.init(c.Avail, c.Used, c.Size)
	return r
}

func (r *splitRing) take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	dropped := uint32(0) // descriptors of dropped chains
	for {
		if r.next == r.seen {
			if err := r.refresh(); err != nil {
				return dst, 0, err
			}
		}
		slot := r.next & r.mask
		var head uint16
		if r.replay == 0 {
			head = binary.LittleEndian.Uint16(r.availMem[availHeader+availSlot*int(slot):])
			r.log[slot] = head
		} else {
			head = r.log[slot]
			r.replay--
			if head == noHead {
				r.next++
				continue
			}
		}
		if uint32(head) >= r.size {
			return dst, 0, r.broken(CauseHeadRange, 0, fault{value: uint64(head)})
		}
		if r.out[head] != 0 {
			return dst, 0, r.broken(CauseHeadInFlight, head, fault{value: uint64(head)})
		}
		c := chain{vecs: dst}
		if f := r.walk(&c, r.desc, uint(head)); f.cause != 0 {
			return dst, 0, r.broken(f.cause, head, f)
		}
		r.next++
		if c.wrong {
			r.drop(head, slot)
			if dropped += c.count; dropped > r.size {
				return dst, 0, r.broken(CauseDirection, head, fault{value: uint64(dropped)})
			}
			continue
		}
		if r.wanted == descWrite {
			r.out[head] = 1 + c.bytes
		} else {
			r.out[head] = 1
		}
		r.outstanding++
		r.counters.Chains++
		return c.vecs, uint32(head), nil
	}
}

// drop returns a chain of the wrong direction unused. A driver without faults
// makes none, but one that does is not dangerous either.
func (r *splitRing) drop(head, slot uint16) {
	r.log[slot] = noHead
	r.stage(head, 0)
	r.counters.Dropped++
}

// refresh looks for chains made available since the last time. It is the only
// reader of the available index.
func (r *splitRing) refresh() error {
	if r.err != nil {
		return r.err
	}
	idx := r.words.availIdx()
	// All chains between done and idx are out of the driver's hands, and it
	// has no more than the ring's size.
	if idx-r.done > r.mask+1 || idx-r.done < r.seen-r.done {
		return r.broken(CauseAvailJump, 0, fault{value: uint64(idx)})
	}
	r.seen = idx
	if idx == r.next {
		return ErrEmpty
	}
	return nil
}

// broken notes the first rule that the driver broke and sees to it that nothing
// is taken any more: with nothing seen, every way leads to refresh.
func (r *splitRing) broken(cause Cause, head uint16, f fault) error {
	r.err = &BrokenError{Cause: cause, Avail: r.next, Head: head, Desc: f.desc, Value: f.value}
	r.seen, r.replay = r.next, 0
	return r.err
}

func (r *splitRing) untake(n int) {
	if n < 0 || n > r.outstanding {
		panic("virtqueue: Untake of more chains than are taken")
	}
	for ; n > 0; n-- {
		r.next--
		r.replay++
		head := r.log[r.next&r.mask]
		for head == noHead {
			r.next--
			r.replay++
			head = r.log[r.next&r.mask]
		}
		if r.out[head] == 0 {
			panic("virtqueue: Untake of a chain that was returned")
		}
		r.out[head] = 0
		r.outstanding--
		r.counters.Chains--
	}
	if r.err != nil {
		r.seen, r.replay = r.next, 0
	}
}

func (r *splitRing) giveBack(token, written uint32) {
	// A chain that is not out has 0 here, which no length is below.
	if token >= r.size || uint64(written) >= r.out[token] {
		panic("virtqueue: Return of a chain that is not taken, or with more bytes than it can hold")
	}
	r.out[token] = 0
	r.outstanding--
	r.stage(uint16(token), written)
}

// stage writes the next used element. The driver does not look at it before the
// used index has passed it.
func (r *splitRing) stage(head uint16, written uint32) {
	slot := int((r.usedIdx + r.staged) & r.mask)
	binary.LittleEndian.PutUint64(r.usedMem[usedHeader+usedSlot*slot:], uint64(written)<<32|uint64(head))
	r.staged++
}

func (r *splitRing) pending() int {
	r.refresh()
	if r.err != nil {
		return 0
	}
	return int(r.seen - r.next)
}
