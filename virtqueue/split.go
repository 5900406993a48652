package virtqueue

import (
	"encoding/binary"

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
//
// If packed is not nil, the ring is of that kind, and each method called by
// [Queue] starts with handing over to it. The methods of Queue cannot choose:
// with two calls in them they would not be inlined, and one call more for each
// Take and Return costs a fifth of these.
type splitRing struct {
	core
	packed *packedRing

	words splitWords

	desc              descTable
	availMem, usedMem []byte

	mask             uint16
	next, seen, done uint16
	// replay is how many positions from next on were taken before and given
	// back: their heads come from log, not from the driver's slots again.
	replay uint16
	log    []uint16 // head by slot, of what was taken; noHead: dropped
	// out has an entry per head: 0 when the device does not hold the chain,
	// else 1 + the bytes that the device may write to it.
	out []uint64
	pos []uint16 // position by head; with IN_ORDER only

	usedIdx   uint16 // as in memory
	usedFlags uint16
	staged    uint16 // used elements behind usedIdx, not yet visible
	batch     uint16 // of these, the one that stands for the open batch; with IN_ORDER
}

func newSplitRing(c *Config) splitRing {
	next := uint16(c.NextAvail)
	r := splitRing{
		core: newCore(c),
		desc: newDescTable(c.Desc), availMem: c.Avail, usedMem: c.Used,
		mask: c.Size - 1,
		next: next, seen: next, done: next,
		log:     make([]uint16, c.Size),
		out:     make([]uint64, c.Size),
		usedIdx: usedIdxOf(c.Used),
	}
	r.words.init(c.Avail, c.Used, c.Size)
	if c.InOrder {
		r.turns = newTurns(c.Size, next)
		r.pos = make([]uint16, c.Size)
	}
	return r
}

func (r *splitRing) take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	if r.packed != nil {
		return r.packed.take(dst)
	}
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
				r.again--
				r.passOn()
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
		// Most chains are done after this, and without the call of walk.
		at, end := r.run(&c, r.desc, uint(head))
		if !end {
			if f := r.walk(&c, r.desc, at); f.cause != 0 {
				return dst, 0, r.broken(f.cause, head, f)
			}
		} else if f := c.total(uint16(at)); f.cause != 0 {
			return dst, 0, r.broken(f.cause, head, f)
		}
		if r.inOrder {
			*r.turns.at(r.next) = turn{id: head}
			r.pos[head] = r.next
		}
		r.next++
		if c.wrong {
			r.drop(head, slot)
			if dropped += c.count; dropped > r.size {
				return dst, 0, r.broken(CauseDirection, head, fault{value: uint64(dropped)})
			}
			continue
		}
		r.out[head] = r.limit(&c)
		if r.dirty != nil {
			r.dirty.take(head, c.vecs[len(dst):])
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
	r.counters.Dropped++
	if r.inOrder {
		r.wait(head, 0, turnDropped)
		return
	}
	r.waiting = append(r.waiting, usedChain{id: head})
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
	if r.packed != nil {
		r.packed.untake(n)
		return
	}
	r.checkUntake(n)
	for ; n > 0; n-- {
		r.next--
		r.replay++
		head := r.log[r.next&r.mask]
		for head == noHead {
			r.next--
			r.replay++
			r.again++
			head = r.log[r.next&r.mask]
		}
		if r.out[head] == 0 {
			panic(misusedUntake)
		}
		if r.dirty != nil {
			r.dirty.untake(head)
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
	if r.packed != nil {
		r.packed.giveBack(token, written)
		return
	}
	// A chain that is not out has 0 here, which no length is below.
	if token >= r.size || uint64(written) >= r.out[token] {
		panic(misusedReturn)
	}
	if r.dirty != nil {
		r.dirty.giveBack(uint16(token), uint64(written))
	}
	r.out[token] = 0
	r.outstanding--
	if r.inOrder {
		r.wait(uint16(token), written, turnReturned)
		return
	}
	r.stage(uint16(token), written)
}

// wait lets the chain at head wait for its turn, which may have come.
func (r *splitRing) wait(head uint16, written uint32, state turnState) {
	t := r.turns.at(r.pos[head])
	t.written, t.state = written, state
	r.passOn()
}

// passOn stages the chains whose turn it is, where turns count. In a queue to be
// read, one used element stands for all that come in a row: it is where that of
// the first would be and names the last (virtio 1.2, 2.7.9).
func (r *splitRing) passOn() {
	if !r.inOrder {
		return
	}
	for t := r.turns.due(r.next); t != nil; t = r.turns.due(r.next) {
		if r.merge && t.state == turnReturned {
			r.setUsed(r.batch, t.id, 0)
			r.staged++
			continue
		}
		r.stage(t.id, t.written)
		r.batch = r.staged
	}
}

// stage writes the next used element. The driver does not look at it before the
// used index has passed it.
func (r *splitRing) stage(head uint16, written uint32) {
	r.setUsed(r.staged, head, written)
	r.staged++
}

// setUsed writes used element i of those staged.
func (r *splitRing) setUsed(i, head uint16, written uint32) {
	slot := int((r.usedIdx + i) & r.mask)
	binary.LittleEndian.PutUint64(r.usedMem[usedHeader+usedSlot*slot:], uint64(written)<<32|uint64(head))
}

func (r *splitRing) pending() int {
	if r.packed != nil {
		return r.packed.pending()
	}
	r.refresh()
	if r.err != nil {
		return 0
	}
	return int(r.seen - r.next)
}

func (r *splitRing) known() int {
	if r.packed != nil {
		return r.packed.known()
	}
	return int(r.seen - r.next)
}

func (r *splitRing) state() uint32 {
	if r.packed != nil {
		return r.packed.state()
	}
	if r.inOrder {
		return uint32(r.turns.first)
	}
	return uint32(r.next - uint16(r.outstanding))
}
