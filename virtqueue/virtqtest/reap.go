package virtqtest

import "fmt"

// Used is a chain that the device has returned.
type Used struct {
	Head uint16 // as Add returned it
	Len  uint32 // bytes that the device wrote, from the start of the writable part
}

// Reap takes the next returned chain out of the used ring and frees its
// descriptors; ok is false if there is none. As Linux does, it moves the event
// index along while calls are enabled.
//
// The error says what the device did wrong: it returned what it did not hold,
// or wrote more than there was room for. The ring is of no use then.
func (d *Driver) Reap() (u Used, ok bool, err error) {
	if !d.batch {
		if u, ok, err = d.nextUsed(); !ok || err != nil {
			return Used{}, false, err
		}
	}
	if d.cfg.InOrder {
		if u, err = d.nextOfBatch(u); err != nil {
			return Used{}, false, err
		}
	}
	if d.packed != nil {
		d.packed.used = d.packed.used.add(int(d.heads[u.Head].count), d.cfg.Size)
	} else {
		d.lastUsed++
	}
	d.release(u.Head)
	if d.cfg.EventIdx && !d.noCalls {
		d.setEvent(0)
		d.fence.Full()
	}
	return u, true, nil
}

// nextUsed reads the next used element or descriptor.
func (d *Driver) nextUsed() (u Used, ok bool, err error) {
	var head, n uint32
	if d.packed != nil {
		var id uint16
		if id, n, ok = d.packed.next(); !ok {
			return Used{}, false, nil
		}
		head = uint32(id)
	} else {
		if d.lastUsed == d.usedIdx {
			if _, d.usedIdx = d.ring.Used(); d.lastUsed == d.usedIdx {
				return Used{}, false, nil
			}
			if n := d.usedIdx - d.lastUsed; n > d.cfg.Size {
				return Used{}, false, fmt.Errorf("virtqtest: used index jumped by %d", n)
			}
		}
		head, n = d.ring.UsedElem(d.lastUsed)
	}
	if head >= uint32(d.cfg.Size) || d.heads[head].count == 0 {
		return Used{}, false, fmt.Errorf("virtqtest: device returned %d, which is no chain that it holds", head)
	}
	if uint64(n) > d.heads[head].writable {
		return Used{}, false, fmt.Errorf("virtqtest: device wrote %d bytes to a chain of %d", n, d.heads[head].writable)
	}
	return Used{Head: uint16(head), Len: n}, true, nil
}

// nextOfBatch returns the oldest chain that the device holds. It is u, or one
// before it in a batch that ends with u or with a chain reaped later (virtio 1.2,
// 2.7.9 and 2.8.8): then all of it was used.
func (d *Driver) nextOfBatch(u Used) (Used, error) {
	if !d.batch {
		d.batch, d.batchLast = true, u
	} else if d.packed == nil && d.lastUsed == d.usedIdx {
		return u, fmt.Errorf("virtqtest: device returned a batch up to %d, the used index is short of that", d.batchLast.Head)
	}
	head := d.order[d.orderFirst]
	d.orderFirst = (d.orderFirst + 1) % len(d.order)
	d.orderN--
	if head == d.batchLast.Head {
		d.batch = false
		return d.batchLast, nil
	}
	return Used{Head: head, Len: uint32(d.heads[head].writable)}, nil
}

// release puts the descriptors of a chain, or its ID, at the front of the free
// list; with IN_ORDER they are where they belong.
func (d *Driver) release(head uint16) {
	n := d.heads[head].count
	d.heads[head] = headState{}
	d.free += int(n)
	if d.cfg.InOrder {
		return
	}
	last := head
	if d.packed == nil {
		for range n - 1 {
			last = d.next[last]
		}
	}
	d.next[last] = d.freeHead
	d.freeHead = head
}

// setEvent writes where the driver wants to be called: n chains, or descriptors
// of a packed ring, after the next one.
func (d *Driver) setEvent(n uint16) {
	if d.packed == nil {
		d.ring.SetUsedEvent(d.lastUsed + n)
		return
	}
	d.packed.ring.SetDriverEvent(d.packed.used.add(int(n), d.cfg.Size).code(), EventDesc)
}

// DisableCalls asks the device not to call: a hint.
func (d *Driver) DisableCalls() {
	if d.noCalls {
		return
	}
	d.noCalls = true
	if d.packed != nil {
		d.packed.ring.SetDriverEvent(0, EventDisable)
		return
	}
	if d.cfg.EventIdx {
		// Behind the used index: not passed again before 65536 chains.
		d.ring.SetUsedEvent(d.lastUsed - 1)
		return
	}
	d.availFlags = 1
	d.ring.SetAvail(d.availFlags, d.published)
}

// EnableCalls asks for a call at the next returned chain. It reports whether
// chains have been returned already: then there may be no call.
func (d *Driver) EnableCalls() (more bool) { return d.enable(0) }

// EnableCallsDelayed is EnableCalls, but asks for the call only when three
// quarters of the chains that the device holds have been returned, as Linux
// does on its transmit queue. Without EVENT_IDX it is EnableCalls.
func (d *Driver) EnableCallsDelayed() (more bool) {
	if !d.cfg.EventIdx {
		return d.enable(0)
	}
	if d.packed != nil {
		return d.enable((d.cfg.Size - uint16(d.free)) / 4 * 3)
	}
	return d.enable((d.published - d.lastUsed) / 4 * 3)
}

func (d *Driver) enable(after uint16) bool {
	d.noCalls, d.availFlags = false, 0
	switch {
	case d.cfg.EventIdx:
		d.setEvent(after)
	case d.packed != nil:
		d.packed.ring.SetDriverEvent(0, EventEnable)
	default:
		d.ring.SetAvail(0, d.published)
	}
	d.fence.Full()
	if d.packed != nil {
		_, _, ok := d.packed.next()
		return ok
	}
	_, d.usedIdx = d.ring.Used()
	return d.usedIdx-d.lastUsed > after
}
