package virtqueue

import "github.com/vhost-net-go/vhost-net-go/virtqueue/internal/order"

// Notification of a split ring, virtio 1.2, 2.7.7 and 2.7.10. Each side writes
// what it wants, then looks at what the other side has; a full barrier between
// the two makes sure that at least one of them sees the other's step.

// publish shows the staged elements to the driver and decides on calling it.
func (r *splitRing) publish() (call bool) {
	if r.packed != nil {
		return r.packed.publish()
	}
	if n := r.ripe(); n > 0 {
		for _, u := range r.waiting[:n] {
			r.stage(u.id, 0)
		}
		r.forget(n)
	}
	if r.staged == 0 {
		return false
	}
	old := r.usedIdx
	if r.dirty != nil {
		r.dirty.elements(old&r.mask, r.staged, r.size)
	}
	r.usedIdx += r.staged
	r.done += r.staged
	r.staged, r.batch = 0, 0
	r.setUsedWord()
	r.fence.AfterStore()
	if !r.eventIdx {
		call = order.Load16(r.words.availFlags)&availNoInterrupt == 0
	} else {
		// A driver that came before may have left any event index, so the
		// first time counts as wanted.
		call = !r.decided || needEvent(order.Load16(r.words.usedEvent), r.usedIdx, old)
		r.decided = true
	}
	return r.updated(call)
}

// setUsedWord stores flags and index of the used ring.
func (r *splitRing) setUsedWord() {
	r.words.setUsed(r.usedFlags, r.usedIdx)
	if r.dirty != nil {
		r.dirty.usedRing(0, usedHeader)
	}
}

// needEvent reports whether an index that moved from old to now has passed
// event, all modulo 2^16 (virtio 1.2, 2.7.7.2).
func needEvent(event, now, old uint16) bool {
	return now-event-1 < now-old
}

// suppressKicks asks the driver not to kick. With EVENT_IDX there is nothing to
// write: the event index stays behind the available index, and the driver does
// not pass it again before 65536 chains.
func (r *splitRing) suppressKicks() {
	if r.packed != nil {
		r.packed.suppressKicks()
		return
	}
	if r.eventIdx || r.usedFlags == usedNoNotify {
		return
	}
	r.usedFlags = usedNoNotify
	r.setUsedWord()
}

func (r *splitRing) armKicks() (more bool) {
	if r.packed != nil {
		return r.packed.armKicks()
	}
	if r.err != nil {
		return false
	}
	if !r.eventIdx {
		r.usedFlags = 0
		r.setUsedWord()
		r.fence.AfterStore()
		r.refresh()
		return r.err != nil || r.seen != r.next
	}
	// The kick must come for the first chain that we have not seen. If chains
	// come between the load and the store, the driver has passed the event
	// index without notice; go after it. It cannot run away: refresh calls the
	// ring broken when the driver is a ring's size ahead.
	for armed := r.seen; ; armed = r.seen {
		order.Store16(r.words.availEvent, armed)
		if r.dirty != nil {
			r.dirty.usedRing(UsedBytes(r.mask+1)-eventBytes, eventBytes)
		}
		r.fence.Full()
		r.refresh()
		if r.err != nil {
			return true
		}
		if r.seen == armed {
			return r.seen != r.next
		}
	}
}
