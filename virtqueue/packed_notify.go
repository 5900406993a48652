package virtqueue

// Notification of a packed ring, virtio 1.2, 2.8.10 and 2.8.14. As with split
// rings each side writes first and looks then, with a full barrier in between.

// publish shows the staged used descriptors to the driver and decides on calling
// it. The driver polls the first of them, so that one is marked last, and shows
// the others with it (2.8.9).
func (r *packedRing) publish() (call bool) {
	if n := r.ripe(); n > 0 {
		for _, u := range r.waiting[:n] {
			r.stage(u, false)
		}
		r.forget(n)
	}
	if len(r.staged) == 0 {
		return false
	}
	old, at := r.used, r.used
	for i := range r.staged {
		u := &r.staged[i]
		// Resume relies on this order: length, other slots from behind, the whole.
		if u.written > 0 && (u.slots > 1 || i == 0 && len(r.staged) > 1) {
			r.words.setLen(at.slot, u.written)
		}
		r.markRest(at, u)
		if i > 0 {
			r.words.setUsed(at.slot, u.written, u.id, u.flags(at))
		}
		at = at.forward(u.slots, r.size)
	}
	first := &r.staged[0]
	if r.dirty != nil {
		r.dirty.publish()
		r.dirty.descriptors(old.slot, r.stagedSlots, r.size)
	}
	r.words.setPolled(old.slot, first.written, first.id, first.flags(old))
	if r.dirty != nil {
		r.dirty.descriptors(old.slot, 1, r.size)
	}
	r.used = at
	r.inUse -= r.stagedSlots
	covered := r.stagedSlots
	r.staged, r.stagedSlots, r.open = r.staged[:0], 0, false
	r.fence.AfterStore()
	return r.updated(r.wantsCall(old, covered))
}

// markRest makes the slots behind a used descriptor that it stands for too look
// used. The driver skips them (2.8.9), so to it they are as good as any others;
// but a successor that finds them available could not tell them from a chain
// that was not taken yet. All of them were taken: no more is staged than is in
// use.
func (r *packedRing) markRest(at place, u *usedChain) {
	for n := u.slots - 1; n > 0; n-- {
		p := at.forward(n, r.size)
		r.words.setRest(p.slot, u.id, p.used())
	}
}

// flags are those of a used descriptor. WRITE says that length bytes were
// written (2.8.3).
func (u *usedChain) flags(at place) uint16 {
	if u.written > 0 {
		return at.used() | descWrite
	}
	return at.used()
}

// wantsCall reports whether the driver wants to be called for n slots used from
// old on.
func (r *packedRing) wantsCall(old place, n uint32) bool {
	first := !r.decided
	r.decided = true
	code, flags := r.words.driverEventWord()
	switch {
	case flags == eventDisable:
		return false
	case flags == eventDesc && r.eventIdx:
		// A driver that came before may have left any event.
		return first || old.reaches(placeOf(code), n, r.size)
	default:
		return true
	}
}

// reaches reports whether e is among the n slots from p on.
func (p place) reaches(e place, n, size uint32) bool {
	at := e.slot
	if e.lap != p.lap {
		at += size
	}
	return at >= p.slot && at-p.slot < n
}

// suppressKicks asks the driver not to kick.
func (r *packedRing) suppressKicks() {
	if r.kicks != eventDisable || r.unarmed {
		r.kicks, r.unarmed = eventDisable, false
		r.words.setDeviceFlags(eventDisable)
		r.eventWritten()
	}
}

func (r *packedRing) armKicks() (more bool) {
	if r.err != nil {
		return false
	}
	r.unarmed = false
	if !r.eventIdx {
		r.kicks = eventEnable
		r.words.setDeviceEvent(0, eventEnable)
		r.eventWritten()
		r.fence.AfterStore()
		r.look()
		return r.ahead.chains > 0
	}
	// The kick must come for the first chain that we have not seen. If chains
	// come before the event is written, the driver has passed it without
	// notice; go after it. It cannot run away: a ring's size is all it has.
	r.kicks = eventDesc
	for {
		armed := r.seen()
		r.words.setDeviceEvent(armed.code(), eventDesc)
		r.eventWritten()
		r.fence.AfterStore()
		r.look()
		if r.seen() == armed {
			return r.ahead.chains > 0
		}
	}
}

// eventWritten marks the event suppression area of the device.
func (r *packedRing) eventWritten() {
	if r.dirty != nil {
		r.dirty.usedRing(0, eventAreaBytes)
	}
}

// seen is the place behind the chains known to be available.
func (r *packedRing) seen() place { return r.next.forward(r.ahead.slots, r.size) }

// look counts what was made available since the last time. There is no index to
// tell, so it goes from chain to chain. What it finds is no more than a hint for
// take: the driver may rewrite the descriptors.
func (r *packedRing) look() {
	at := r.seen()
	for left := r.size - r.inUse - r.ahead.slots; left > 0 && r.available(at); {
		n := uint32(1)
		for end := at; n < left && r.words.flags(end.slot)&descNext != 0; n++ {
			end = end.forward(1, r.size)
		}
		r.ahead.chains++
		r.ahead.slots += n
		left -= n
		at = at.forward(n, r.size)
	}
}

func (r *packedRing) pending() int {
	if r.err != nil {
		return 0
	}
	r.look()
	return int(r.ahead.chains)
}

func (r *packedRing) known() int { return int(r.ahead.chains) }
