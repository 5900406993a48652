package icmp

import "github.com/vhost-net-go/vhost-net-go/netstack/hostsock"

// Fault is called when guest memory vanished in the middle of a turn, after the
// rings were taken away: every flow is put in line again, since the poller does
// not tell twice of what waits in a socket.
func (h *Handler) Fault() {
	h.ready, h.parked = h.ready[:0], h.parked[:0]
	for i := range h.flows {
		if f := &h.flows[i]; f.inUse {
			f.waiting = false
			h.makeReady(uint32(i), f)
		}
	}
}

// memoryGone notes what a system call says of guest memory, and reports whether
// it says that it is not there.
func (h *Handler) memoryGone(errno hostsock.Errno) bool {
	if errno == hostsock.EFAULT {
		h.cfg.Link.MemoryGone = true
	}
	return errno == hostsock.EFAULT
}
