package tcp

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

const (
	// firstRTOMs holds before a round trip was measured (RFC 6298 section 2.1),
	// minRTOMs and maxRTOMs bound it (sections 2.4 and 2.5).
	firstRTOMs = 1000
	minRTOMs   = 200
	maxRTOMs   = 60_000
	// maxRetries is R2 of RFC 9293 section 3.8.3: 8 minutes or more, where 100
	// seconds are asked for.
	maxRetries = 15
	// maxIdleRetries bounds the back-off while nothing can be sent at all: that
	// says nothing about the guest.
	maxIdleRetries = 8
	// maxSynAckRetries and maxSynRetries bound the handshake: the guest's own
	// patience, and that of a client while the guest boots (RFC 9293 section
	// 3.8.3 asks for 3 minutes at least).
	maxSynAckRetries = 7
	maxSynRetries    = 30
	maxSynRTOMs      = 8000
	// idleMs is when an idle guest is asked whether it is still there (RFC 1122
	// section 4.2.3.6), endedIdleMs when one that has ended its direction is,
	// probeMs the distance of unanswered questions, maxProbes their number.
	idleMs      = 2 * 3600 * 1000
	endedIdleMs = 120_000
	probeMs     = 75_000
	maxProbes   = 9
	// coarseMs rounds idle timers up, so that thousands of flows share a
	// wake-up.
	coarseMs = 1 << 15
	// silentMs is how long a guest may leave probes of its window unanswered.
	silentMs = 15 * 60_000
	// resettingMs is how long a reset that cannot be told is kept.
	resettingMs = 60_000
)

// armRTO starts the retransmission timer of f, backed off by its retries (RFC
// 6298 sections 5.1 and 5.5).
func (h *Handler) armRTO(i uint32, f *flow) {
	if f.rtoMs == 0 {
		f.rtoMs = firstRTOMs
	}
	most := uint32(maxRTOMs)
	if f.state == synSent {
		most = maxSynRTOMs
	}
	f.rtoAtMs = h.now() + min(f.rtoMs<<min(f.retries, 10), most)
	f.set(rtoArmed)
	h.schedule(i, f)
}

// sampleRTT ends a measurement and derives the timeout (RFC 6298 section 2).
func (h *Handler) sampleRTT(f *flow) {
	if !f.has(timing) {
		return
	}
	f.clear(timing)
	rtt := h.now() - f.timeAtMs
	if f.srttMs8 == 0 {
		f.srttMs8 = rtt<<3 | 1
		f.rttvMs4 = rtt << 1
	} else {
		dev := int32(rtt) - int32(f.srttMs8>>3)
		f.srttMs8 = uint32(int32(f.srttMs8)+dev) | 1
		f.rttvMs4 = uint32(int32(f.rttvMs4) + max(dev, -dev) - int32(f.rttvMs4>>2))
	}
	f.rtoMs = min(max(f.srttMs8>>3+max(1, f.rttvMs4), minRTOMs), maxRTOMs)
}

// duplicateAck counts an acknowledgement that says nothing new; the third means
// loss (RFC 5681 section 3.2). But those that answer what was sent twice do not
// (RFC 6582 section 3.2).
func (h *Handler) duplicateAck(i uint32, f *flow) {
	if f.dupAcks++; f.dupAcks == 3 && before(f.recover, f.sndUna) {
		h.goBack(i, f)
		h.armRTO(i, f)
	}
	if f.dupAcks > 3 {
		f.dupAcks = 4
	}
}

// goBack sends again from the oldest byte that is not acknowledged.
func (h *Handler) goBack(i uint32, f *flow) {
	h.Counters.Retransmits++
	h.bigUnanswered(f)
	f.sndNxt, f.recover = f.sndUna, f.sndMax
	if f.has(hasHeld) {
		b := h.held[i]
		b.resent = f.sndUna
		h.held[i] = b
	}
	f.clear(timing | windowFull) // Karn's rule (RFC 6298 section 3)
	h.makeReady(i, f)
}

// idleDeadline is when f is probed for want of any sign of the guest.
func (h *Handler) idleDeadline(f *flow) uint32 {
	d := f.seenAtMs + idleMs
	if f.has(guestFin | hostEOF) {
		d = f.seenAtMs + endedIdleMs
	}
	if f.has(probing) {
		d += uint32(f.retries) * probeMs
	}
	return d | (coarseMs - 1)
}

// schedule sets the wheel to the earliest deadline of f, unless it comes earlier
// anyway.
func (h *Handler) schedule(i uint32, f *flow) {
	at := h.now() + resettingMs
	if f.state == established {
		at = h.idleDeadline(f)
	}
	if f.has(rtoArmed) && before(f.rtoAtMs, at) {
		at = f.rtoAtMs
	}
	if f.has(ackLater) && before(f.ackAtMs, at) {
		at = f.ackAtMs
	}
	nowMs := h.cfg.Link.NowMs
	abs := nowMs + int64(max(int32(at-uint32(nowMs)), 0))
	if f.wheelAt == 0 || abs < f.wheelAt {
		f.wheelAt = abs
		h.wheel.Set(i, abs)
	}
}

// NextDeadlineMs is when Advance is due, or -1.
func (h *Handler) NextDeadlineMs() int64 {
	next := h.wheel.Next()
	if h.acceptAtMs != 0 && (next < 0 || h.acceptAtMs < next) {
		next = h.acceptAtMs
	}
	if h.resumeAtMs != 0 && (next < 0 || h.resumeAtMs < next) {
		next = h.resumeAtMs
	}
	return next
}

// Advance runs the timers that are due.
func (h *Handler) Advance() {
	if h.acceptAtMs != 0 && h.acceptAtMs <= h.cfg.Link.NowMs {
		h.acceptAtMs = 0
		for j := range h.listeners {
			h.acceptAll(&h.listeners[j])
		}
	}
	if h.resumeAtMs != 0 && h.resumeAtMs <= h.cfg.Link.NowMs {
		h.resumeAtMs = 0
		h.Refilled() // those that wait for buffers are parked again
	}
	h.wheel.Advance(h.cfg.Link.NowMs, h.fire)
}

// fire handles the wheel's entry of flow i.
func (h *Handler) fire(i uint32) {
	f := h.flows.at(i)
	f.wheelAt = 0
	if f.state == free {
		return
	}
	now := h.now()
	if f.has(ackLater) && atOrAfter(now, f.ackAtMs) && f.state == established {
		h.sendFlags(f, bareSeq(f), header.TCPAck)
	}
	if f.has(rtoArmed) && atOrAfter(now, f.rtoAtMs) {
		f.clear(rtoArmed)
		h.timeout(i, f)
	} else if f.state == established && atOrAfter(now, h.idleDeadline(f)) {
		h.probeGuest(i, f)
	}
	if f.state != free && f.state != connecting {
		h.schedule(i, f)
	}
}

// timeout handles the retransmission timer.
func (h *Handler) timeout(i uint32, f *flow) {
	most := uint8(200)
	switch {
	case h.cfg.Queue.Attached() && !h.cfg.Queue.Starved() && !f.has(onParked):
	case f.state == synReceived:
		most = maxSynAckRetries - 1
	default:
		most = maxIdleRetries
	}
	f.retries = min(f.retries+1, max(f.retries, most))
	switch f.state {
	case synReceived:
		if f.retries > maxSynAckRetries {
			h.resetBoth(i, f)
			return
		}
		f.clear(timing) // Karn's rule
		h.sendSyn(f, header.TCPSyn|header.TCPAck)
		h.armRTO(i, f)
	case synSent:
		if f.retries > maxSynRetries {
			h.abortHost(f)
			h.release(i, f)
			return
		}
		h.trySyn(i, f)
	case resetting, timeWait:
		h.release(i, f)
	case established:
		h.dataTimeout(i, f)
	}
}

// dataTimeout sends again, or probes a closed window.
func (h *Handler) dataTimeout(i uint32, f *flow) {
	if f.retries > maxRetries {
		h.resetBoth(i, f)
		return
	}
	if f.sndWnd == 0 && f.has(hostFailed) {
		h.hostReset(i, f) // the rest may never be wanted
		return
	}
	if f.sndUna != f.sndMax {
		h.Counters.Timeouts++
		h.dropHeld(i, f) // the guest may have let go of it (RFC 2018 section 8)
		h.goBack(i, f)
		f.set(timedOut)
		h.bigForget(f)
	}
	h.armRTO(i, f)
	if f.sndWnd == 0 && (f.has(hostReadable) || f.sndUna != f.sndMax) {
		h.probeWindow(i, f)
	}
}

// probeWindow sends one byte, or FIN, past the guest's closed window, so that
// its answer tells when the window opens (RFC 9293 section 3.8.6.1).
func (h *Handler) probeWindow(i uint32, f *flow) {
	if h.now()-f.seenAtMs < silentMs {
		f.retries = min(f.retries, 9) // a guest that answers is not given up
	}
	if f.has(hostEOF) && f.sndNxt == f.eofSeq {
		h.sendFin(i, f)
		return
	}
	h.sendData(i, f, 1, false)
}

// probeGuest asks a silent guest whether it still knows the connection: a
// segment that it has to answer (RFC 1122 section 4.2.3.6).
func (h *Handler) probeGuest(i uint32, f *flow) {
	if !h.cfg.Queue.Attached() || h.cfg.Queue.Starved() {
		f.seenAtMs = h.now() // nobody is there to be asked, or there is no way to ask
		return
	}
	if !f.has(probing) {
		f.set(probing)
		f.retries = 0
	}
	f.retries++
	if f.retries > maxProbes {
		h.resetBoth(i, f)
		return
	}
	h.sendFlags(f, f.sndUna-1, header.TCPAck)
}
