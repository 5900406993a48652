package tcp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// timeWaitMs is how long a flow stays whose last acknowledgement may be lost: for
// a few repetitions of the guest's FIN. It is no 2 MSL (RFC 9293 section 3.6.1),
// because nothing old wanders about on a ring.
const timeWaitMs = 2000

// closeIfDone closes the socket when both directions have ended and both ends
// know, and frees the flow.
func (h *Handler) closeIfDone(i uint32, f *flow) {
	if !f.has(finSent) || f.sndUna != f.eofSeq+1 || !f.has(wroteEnd) {
		return
	}
	if f.lastAcked != f.hostTaken {
		h.sendFlags(f, bareSeq(f), header.TCPAck) // the last: of the guest's FIN
	}
	h.discardAll(f) // what is left in the queue would turn close into a reset
	if f.has(finLast) || h.flows.live > h.cfg.MaxFlows/2 {
		h.release(i, f)
		return
	}
	hostsock.Close(int(f.fd))
	f.fd, f.state = -1, timeWait
	f.clear(ackLater | ackNow)
	f.set(rtoArmed)
	f.rtoAtMs = h.now() + timeWaitMs
	h.schedule(i, f)
}

// abortHost closes the host's side so that its peer sees a reset.
func (h *Handler) abortHost(f *flow) {
	if f.fd >= 0 {
		hostsock.Abort(int(f.fd))
		f.fd = -1
	}
}

// hostReset ends a flow whose host side was reset or failed: the guest is told
// by RST, behind all the data that came before.
func (h *Handler) hostReset(i uint32, f *flow) {
	if f == h.gatherFlow {
		h.gatherFlow, h.gather, h.gatherBytes = nil, h.gather[:0], 0
	}
	if f.fd >= 0 {
		hostsock.Close(int(f.fd))
		f.fd = -1
	}
	h.dropStash(i, f)
	h.dropEarly(i, f)
	h.unlist(f)
	f.state = resetting
	f.clear(rtoArmed | ackLater)
	h.tellReset(i, f)
}

// resetBoth ends a flow towards both sides.
func (h *Handler) resetBoth(i uint32, f *flow) {
	h.abortHost(f)
	h.hostReset(i, f)
}

// tellReset sends the RST of a flow in resetting, or keeps the flow until there
// is a buffer for it.
func (h *Handler) tellReset(i uint32, f *flow) {
	if h.sendFlags(f, f.sndMax, header.TCPRst|header.TCPAck) {
		h.Counters.ResetsSent++
		h.release(i, f)
		return
	}
	h.park(i, f)
	f.rtoAtMs = h.now() + resettingMs
	f.set(rtoArmed)
	h.schedule(i, f)
}
