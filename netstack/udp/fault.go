package udp

import "github.com/vhost-net-go/vhost-net-go/netstack/hostsock"

// Fault is called when guest memory vanished in the middle of a turn, after the
// rings were taken away: every flow and listener is put in line again, since the
// poller does not tell twice of what waits in a socket.
func (h *Handler) Fault() {
	h.train.segs = 0 // its memory is gone
	h.ready, h.running, h.parked = h.ready[:0], h.running[:0], h.parked[:0]
	for c := range h.flows.chunks {
		for j := range h.flows.chunks[c] {
			if f := &h.flows.chunks[c][j]; f.has(inUse) {
				f.clear(onReady | onParked)
				if f.fd >= 0 {
					// A call for several datagrams leaves behind what ended it.
					hostsock.TakeError(int(f.fd))
					h.makeReady(uint32(c*chunkFlows+j), f)
				}
			}
		}
	}
	for j := range h.listeners {
		h.listeners[j].readable = true
	}
	h.readyListen, h.parkedListen = len(h.listeners) > 0, false
}

// memoryGone notes what a system call says of guest memory, and reports whether
// it says that it is not there.
func (h *Handler) memoryGone(errno hostsock.Errno) bool {
	if errno == hostsock.EFAULT {
		h.cfg.Link.MemoryGone = true
	}
	return errno == hostsock.EFAULT
}
