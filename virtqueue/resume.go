package virtqueue

import "errors"

// Resume returns the NextAvail at which a device goes on whose predecessor
// vanished without a word. It reads the ring of c, of which Mem and NextAvail
// need not be set.
//
// A frontend also tells a number (SET_VRING_BASE of vhost-user). It is the same
// after an orderly stop; after a crash of the backend it may be stale, and the
// memory is what to believe.
//
// In a split ring that is the used index. Chains behind it were taken and never
// returned, so the driver still waits for them. This is right for devices that
// return chains in the order in which they were made available.
//
// A packed ring has no index. The place is found from the descriptors, where the
// last used one is followed by one that is available. It is certain for receive
// queues, and for transmit queues without IN_ORDER: where chains of several slots
// are to be expected (no INDIRECT), this package marks all slots that a used
// descriptor stands for. Doubt comes from slots of a batch (transmit, IN_ORDER)
// that look available still. It is told from the buffer ID, as long as its used
// descriptor is there, if the driver uses slots as IDs, as Linux and DPDK do.
//
// The rest is an error; so is a ring whose device was killed between the writes
// of one Publish, and one with flags that no driver sets.
func Resume(c Config) (nextAvail uint32, err error) {
	if err := c.checkParts(); err != nil {
		return 0, err
	}
	if !c.Packed {
		return uint32(usedIdxOf(c.Used)), nil
	}
	at, err := newResumer(&c).find()
	return at.base(), err
}

var errNoPlace = errors.New("virtqueue: the state of the packed ring cannot be told from its memory")

// resumer finds the place of a device in a packed ring.
type resumer struct {
	size              uint32
	inOrder, writable bool
	id, flags         []uint16 // by slot
	virgin            bool     // the last slot was never written
}

func newResumer(c *Config) *resumer {
	r := &resumer{
		size: uint32(c.Size), inOrder: c.InOrder, writable: c.Writable,
		id: make([]uint16, c.Size), flags: make([]uint16, c.Size),
	}
	var w packedWords
	w.init(c.Desc, c.Avail, c.Used)
	for i := range r.id {
		// The driver may be at work.
		r.id[i], r.flags[i] = w.idFlags(uint32(i))
	}
	addr, rest := newDescTable(c.Desc).load(uint(c.Size) - 1)
	r.virgin = addr == 0 && rest == 0
	return r
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

func (r *resumer) available(p place) bool {
	return r.flags[p.slot]&(descAvail|descUsed) == p.lap
}

func (r *resumer) find() (place, error) {
	if r.virgin {
		// The device is in the first lap still.
		start := place{lap: descAvail}
		if p, ok := r.lastUsed(start, r.size); ok {
			return r.behind(p)
		}
		return start, nil
	}
	// The driver has written slots from 0 up to some border in one lap, those
	// behind it in the lap before.
	start := place{lap: r.lap(0)}
	border := uint32(1)
	for border < r.size && r.lap(border) == start.lap {
		border++
	}
	for i := border; i < r.size; i++ {
		if r.lap(i) == start.lap {
			return place{}, errNoPlace
		}
	}
	if p, ok := r.lastUsed(start, border); ok {
		return r.behind(p)
	}
	at := start.back(r.size-border, r.size) // the border, in the lap before
	if p, ok := r.lastUsed(at, r.size-border); ok {
		return r.behind(p)
	}
	return r.allAvailable(at)
}

// allAvailable returns the place where the driver has gone over all used
// descriptors, up to that before at. If each stood for one slot, it is a whole
// lap ahead of the device.
func (r *resumer) allAvailable(at place) (place, error) {
	switch {
	case r.inOrder && r.writable:
		// What is left of a chain that was used has another ID.
		if end, ok := r.chain(at); ok && uint32(r.id[end.back(1, r.size).slot]) != at.slot {
			return end, nil
		}
	case r.inOrder:
		return place{}, errNoPlace
	}
	return at, nil
}

// lastUsed returns the last used descriptor of the n slots from p on.
func (r *resumer) lastUsed(p place, n uint32) (place, bool) {
	for ; n > 0; n-- {
		if q := p.forward(n-1, r.size); r.used(q) {
			return q, true
		}
	}
	return p, false
}

// behind returns the place behind all that the used descriptor at p, the last
// one, stands for.
func (r *resumer) behind(p place) (place, error) {
	id := r.id[p.slot]
	next := p.forward(1, r.size)
	if r.inOrder && uint32(id) != p.slot {
		// A batch: the chain with this ID is the last one of it.
		if uint32(id) >= r.size {
			return place{}, errNoPlace
		}
		last := p.forward((uint32(id)+r.size-p.slot)%r.size, r.size)
		end, ok := r.chain(last)
		if !ok || r.id[end.back(1, r.size).slot] != id {
			return place{}, errNoPlace
		}
		return end, nil
	}
	if end, ok := r.chain(next); ok && r.inOrder && r.id[end.back(1, r.size).slot] == id {
		return end, nil // IDs are slots, so these are the chain's own
	}
	// With INDIRECT no chain of several slots is to be expected, without it the
	// rest of one would have been marked (see markRest).
	return next, nil
}

// chain returns the place behind the chain that begins at p, if one is
// available there.
func (r *resumer) chain(p place) (end place, ok bool) {
	for range r.size {
		if !r.available(p) {
			return p, false
		}
		next := p.forward(1, r.size)
		if r.flags[p.slot]&descNext == 0 {
			return next, true
		}
		p = next
	}
	return p, false
}
