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
	if d.lastUsed == d.usedIdx {
		if _, d.usedIdx = d.ring.Used(); d.lastUsed == d.usedIdx {
			return Used{}, false, nil
		}
		if n := d.usedIdx - d.lastUsed; n > d.cfg.Size {
			return Used{}, false, fmt.Errorf("virtqtest: used index jumped by %d", n)
		}
	}
	head, n := d.ring.UsedElem(d.lastUsed)
	if head >= uint32(d.cfg.Size) || d.heads[head].count == 0 {
		return Used{}, false, fmt.Errorf("virtqtest: device returned %d, which is no chain that it holds", head)
	}
	if uint64(n) > d.heads[head].writable {
		return Used{}, false, fmt.Errorf("virtqtest: device wrote %d bytes to a chain of %d", n, d.heads[head].writable)
	}
	d.lastUsed++
	u = Used{Head: uint16(head), Len: n}
	d.release(u.Head)
	if d.cfg.EventIdx && !d.noCalls {
		d.ring.SetUsedEvent(d.lastUsed)
		d.fence.Full()
	}
	return u, true, nil
}

// release puts the descriptors of a chain at the front of the free list.
func (d *Driver) release(head uint16) {
	n := d.heads[head].count
	d.heads[head] = headState{}
	last := head
	for range n - 1 {
		last = d.next[last]
	}
	d.next[last] = d.freeHead
	d.freeHead = head
	d.free += int(n)
}

// DisableCalls asks the device not to call: a hint.
func (d *Driver) DisableCalls() {
	if d.noCalls {
		return
	}
	d.noCalls = true
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
	return d.enable((d.published - d.lastUsed) / 4 * 3)
}

func (d *Driver) enable(after uint16) bool {
	d.noCalls, d.availFlags = false, 0
	if d.cfg.EventIdx {
		d.ring.SetUsedEvent(d.lastUsed + after)
	} else {
		d.ring.SetAvail(0, d.published)
	}
	d.fence.Full()
	_, d.usedIdx = d.ring.Used()
	return d.usedIdx-d.lastUsed > after
}
