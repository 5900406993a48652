package tcp

import "github.com/vhost-net-go/vhost-net-go/netstack/hostsock"

// Fault is called when guest memory vanished in the middle of a turn, after the
// rings were taken away. Whatever the handler was about has ended halfway, so
// every flow is put in line again for all that it may have been about; what
// there was for the guest is as if it was lost on the way.
func (h *Handler) Fault() {
	if f := h.gatherFlow; f != nil {
		f.rcvNxt = f.hostTaken // never sent, and never acknowledged
	}
	h.gatherFlow, h.gather, h.gatherBytes = nil, h.gather[:0], 0
	if h.accepting >= 0 {
		hostsock.Abort(h.accepting)
		h.accepting = -1
	}
	if len(h.listeners) > 0 {
		h.acceptAgain(0) // the poller does not tell twice of what waits
	}
	h.ready, h.running, h.acks = h.ready[:0], h.running[:0], h.acks[:0]
	h.parked, h.waking = h.parked[:0], h.waking[:0]
	for c := range h.flows.chunks {
		for j := range h.flows.chunks[c] {
			if f := &h.flows.chunks[c][j]; f.state != free {
				f.clear(onReady | onAcks | onParked)
				h.resume(uint32(c*chunkFlows+j), f)
			}
		}
	}
}

// resume puts a flow in order that was left at any place where guest memory is
// touched.
func (h *Handler) resume(i uint32, f *flow) {
	if before(f.sndMax, f.sndNxt) {
		f.sndMax = f.sndNxt // the guest may have seen it already
	}
	switch f.state {
	case connecting, timeWait:
		return // nothing of theirs touches the guest halfway
	case resetting:
		h.tellReset(i, f)
		return
	case synSent, synReceived:
		if !f.has(rtoArmed) {
			h.armRTO(i, f)
		}
	case established:
		if f.sndUna != f.sndMax && !f.has(rtoArmed) {
			h.armRTO(i, f)
		}
		if f.has(ackNow) || f.ackSeq() != f.lastAcked {
			h.oweAck(i, f)
		}
		h.makeReady(i, f)
		h.closeIfDone(i, f)
	}
	if f.state != free {
		h.schedule(i, f)
	}
}
