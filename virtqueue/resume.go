package virtqueue

import (
	"errors"
	"slices"
)

// Resume returns the NextAvail at which a device goes on whose predecessor
// vanished without a word. It reads the ring of c, of which Mem and NextAvail
// need not be set.
//
// A frontend also tells a number (SET_VRING_BASE of vhost-user). It is the same
// after an orderly stop; after a crash of the backend it may be stale, and the
// memory is what to believe. This is right for devices that return chains in the
// order in which they were made available.
//
// In a split ring the used index says it. Chains behind it were taken and never
// returned, so the driver still waits for them.
//
// A packed ring has no index. But this package marks every slot that a used
// descriptor stands for, and the driver writes a slot anew only after it got it
// back: so each slot is used up to some place and available from there on. If the
// predecessor was killed in the middle of a Publish, some slots before that place
// are not marked, and the driver, which waits for the first of them, would wait
// for ever. Resume marks them: it finishes that Publish. Chains whose length was
// not yet written count as returned with as many bytes as they have.
//
// The driver should be called after that, since nobody knows whether it was. An
// error says that no device of this package, with a driver that keeps the rules,
// left the ring so.
func Resume(c Config) (nextAvail uint32, err error) {
	if err := c.checkParts(); err != nil {
		return 0, err
	}
	if !c.Packed {
		return uint32(usedIdxOf(c.Used)), nil
	}
	r, err := newResumer(&c)
	if err != nil {
		return 0, err
	}
	at, err := r.find()
	return at.base(), err
}

var errNoPlace = errors.New("virtqueue: the state of the packed ring cannot be told from its memory")

// resumer finds the place of a device in a packed ring.
type resumer struct {
	words     packedWords
	size      uint32
	writable  bool
	id, flags []uint16 // by slot
	virgin    bool     // the last slot was never written
}

// resumeReads is how often a ring is read at most until it is twice the same.
// The driver may be at work, but without a device it comes to an end.
const resumeReads = 100

func newResumer(c *Config) (*resumer, error) {
	r := &resumer{
		size: uint32(c.Size), writable: c.Writable,
		id: make([]uint16, c.Size), flags: make([]uint16, c.Size),
	}
	r.words.init(c.Desc, c.Avail, c.Used)
	r.read()
	for range resumeReads {
		before := slices.Clone(r.flags)
		r.read()
		if slices.Equal(before, r.flags) {
			addr, rest := newDescTable(c.Desc).load(uint(c.Size) - 1)
			r.virgin = addr == 0 && rest == 0
			return r, nil
		}
	}
	return nil, errNoPlace
}

func (r *resumer) read() {
	for i := range r.id {
		r.id[i], r.flags[i] = r.words.idFlags(uint32(i))
	}
}

// lap returns the lap in which slot i was last written by the driver.
func (r *resumer) lap(i uint32) uint16 {
	if r.flags[i]&descAvail != 0 {
		return descAvail
	}
	return descUsed
}

func (r *resumer) used(p place) bool {
	return r.flags[p.slot]&(descAvail|descUsed) == p.used()
}

// find returns the place behind the last used slot, and closes gaps before it.
func (r *resumer) find() (place, error) {
	first, n := place{lap: descAvail}, r.size
	if !r.virgin {
		// The driver has written slots from 0 up to some border in one lap,
		// those behind it in the lap before.
		border := uint32(1)
		for border < r.size && r.lap(border) == r.lap(0) {
			border++
		}
		for i := border; i < r.size; i++ {
			if r.lap(i) == r.lap(0) {
				return place{}, errNoPlace
			}
		}
		first = place{lap: r.lap(0)}.back(r.size-border, r.size)
	}
	for ; n > 0; n-- {
		if r.used(first.forward(n-1, r.size)) {
			break
		}
	}
	r.finish(first, n)
	return first.forward(n, r.size), nil
}

// finish marks those of the n slots from p on that are not used, which can only
// be for want of time. The driver looks at the first of them alone, so that one
// comes last.
func (r *resumer) finish(p place, n uint32) {
	var polled place
	var polledID uint16
	found := false
	for i := uint32(0); i < n; {
		head := p.forward(i, r.size)
		i++
		if r.used(head) {
			continue
		}
		end := head
		for ; !r.used(end) && r.flags[end.slot]&descNext != 0 && i < n; i++ {
			end = p.forward(i, r.size)
			if !r.used(end) {
				r.words.setRest(end.slot, r.id[end.slot], end.used())
			}
		}
		// The last slot has the ID of the chain, or that of the used descriptor
		// if it was marked.
		if id := r.id[end.slot]; found {
			r.complete(head, id)
		} else {
			polled, polledID, found = head, id, true
		}
	}
	if found {
		r.complete(polled, polledID)
	}
}

// complete marks the head of a chain. What was written to it has its length.
func (r *resumer) complete(head place, id uint16) {
	n, flags := uint32(0), head.used()
	if r.writable {
		n, flags = r.words.length(head.slot), flags|descWrite
	}
	r.words.setPolled(head.slot, n, id, flags)
}
