package tcp

import (
	"slices"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	// maxStashBytes bounds what a worker keeps of segments that sockets did not
	// take. Beyond it the guest has to send again.
	maxStashBytes = 32 << 20
	// ackDelayMs is how long a small acknowledgement waits for company (RFC
	// 9293 section 3.8.6.3 allows 500): long enough for a local answer to carry
	// it, or the next segment make it due, so that it needs no turn of its own; as
	// long as Linux waits at least, far below the least timeout of a guest.
	ackDelayMs = 40
)

// dataFromGuest takes n bytes of a segment's data, off bytes into it: for the
// socket at the end of the batch, together with what follows in order.
func (h *Handler) dataFromGuest(i uint32, f *flow, fr *link.Frame, off, n int) {
	h.Counters.BytesFromGuest += uint64(n)
	start := header.VnetLen + fr.Packet.Payload + off
	if f.has(hasStash) {
		h.stashData(i, f, fr.Vecs, start, n)
		return
	}
	if h.gatherFlow != f || len(h.gather)+len(fr.Vecs) > hostsock.MaxVecs {
		h.flushGather()
		if f.state != established || f.has(hasStash) {
			if f.has(hasStash) {
				h.stashData(i, f, fr.Vecs, start, n)
			}
			return
		}
	}
	h.gather = iov.AppendRange(h.gather, fr.Vecs, start, n)
	h.gatherBytes += n
	h.gatherFlow, h.gatherIndex = f, i
	f.rcvNxt += uint32(n)
	h.oweAck(i, f)
}

// flushGather sends what was gathered for one socket.
func (h *Handler) flushGather() {
	f, i, total := h.gatherFlow, h.gatherIndex, h.gatherBytes
	if f == nil {
		return
	}
	vecs := h.gather
	h.gatherFlow, h.gather, h.gatherBytes = nil, h.gather[:0], 0
	n, errno := h.send(f, vecs)
	if errno == hostsock.EFAULT {
		f.rcvNxt = f.hostTaken
		h.cfg.Link.MemoryGone = true
		return
	}
	if errno != 0 && errno != hostsock.EAGAIN {
		h.sendFailed(i, f)
		return
	}
	f.hostTaken += uint32(n)
	if n < total {
		f.rcvNxt = f.hostTaken
		h.stashData(i, f, vecs, n, total-n)
	}
}

// send gives vecs to the host's socket. Nagle's algorithm, of which the guest has
// its own, is turned off before a second send: the first is never held (Linux
// holds a short segment behind a short one only), and many connections have no
// second.
func (h *Handler) send(f *flow, vecs []iov.Vec) (int, hostsock.Errno) {
	if f.has(sentOnce) && !f.has(noDelay) {
		hostsock.SetNoDelay(int(f.fd))
		f.set(noDelay)
	}
	n, errno := h.calls.Send(int(f.fd), vecs)
	if n > 0 {
		f.set(sentOnce)
		f.prompt = 0 // it carries what the kernel has to acknowledge
	}
	return n, errno
}

// sendFailed notes that the host's socket is dead for sending. What it still
// holds for the guest is delivered first, then the guest is told.
func (h *Handler) sendFailed(i uint32, f *flow) {
	f.rcvNxt = f.hostTaken
	f.set(hostFailed | hostEnded | hostReadable)
	h.makeReady(i, f)
}

// stashData keeps n bytes of vecs that the socket has no room for.
func (h *Handler) stashData(i uint32, f *flow, vecs []iov.Vec, off, n int) {
	h.oweAck(i, f)
	if h.stashBytes+n > maxStashBytes {
		f.set(ackNow) // the guest will see that these bytes are missing
		return
	}
	old := h.stash[i]
	b := append(old, make([]byte, n)...)
	iov.CopyOut(b[len(old):], vecs, off)
	h.stash[i] = b
	h.stashBytes += n
	h.Counters.Stashed += uint64(n)
	f.set(hasStash)
	f.rcvNxt += uint32(n)
}

func (h *Handler) dropStash(i uint32, f *flow) {
	if f.has(hasStash) {
		h.stashBytes -= len(h.stash[i])
		delete(h.stash, i)
		f.clear(hasStash | ackStash)
	}
}

// writable goes on with what waited for room in the host's socket.
func (h *Handler) writable(i uint32, f *flow) {
	if f.has(hasStash) {
		b := h.stash[i]
		n, errno := h.send(f, append(h.gather[:0], iov.Of(b)))
		if errno != 0 && errno != hostsock.EAGAIN {
			h.dropStash(i, f)
			h.sendFailed(i, f)
			return
		}
		f.hostTaken += uint32(n)
		h.stashBytes -= n
		b = b[n:]
		if cap(b) > 4*len(b) {
			b = slices.Clone(b) // a small rest must not hold all of it
		}
		if h.stash[i] = b; len(b) > 0 {
			return // the next edge comes when there is room again
		}
		h.dropStash(i, f)
		f.set(ackNow)
		h.endToHost(i, f)
	}
	if f.state == established && f.has(wantWritable) {
		f.clear(wantWritable)
		f.set(ackNow)
	}
	if f.has(ackNow) {
		h.oweAck(i, f)
	}
}

// endToHost passes the guest's FIN on, once every byte before it is taken.
func (h *Handler) endToHost(i uint32, f *flow) {
	if !f.has(guestFin) || f.has(hasStash|wroteEnd) {
		return
	}
	f.set(wroteEnd)
	f.hostTaken = f.rcvNxt
	hostsock.ShutdownWrite(int(f.fd))
	h.closeIfDone(i, f)
}

// oweAck puts f in line for an acknowledgement at the end of the batch.
func (h *Handler) oweAck(i uint32, f *flow) {
	if !f.has(onAcks) {
		f.set(onAcks)
		h.acks = append(h.acks, i)
	}
}

// EndBatch sends what was gathered and acknowledges what is due.
func (h *Handler) EndBatch() {
	h.flushGather()
	for _, i := range h.acks {
		f := h.flows.at(i)
		if !f.has(onAcks) {
			continue
		}
		f.clear(onAcks)
		if f.state == established {
			h.settleAck(i, f)
		}
	}
	h.acks = h.acks[:0]
}

// settleAck sends the acknowledgement that f owes, or sets its time.
func (h *Handler) settleAck(i uint32, f *flow) {
	h.widenWindow(i, f)
	due := f.ackSeq() - f.lastAcked
	switch {
	case f.has(ackNow) || due >= 2*uint32(f.guestMSS):
		h.sendAck(i, f)
	case due > 0 && !f.has(ackLater):
		f.set(ackLater)
		f.ackAtMs = h.now() + ackDelayMs
		h.schedule(i, f)
	}
}

// widenWindow asks the socket how much more it can take, when half of what it
// said last is used up.
func (h *Handler) widenWindow(i uint32, f *flow) {
	left := f.rcvEdge - f.rcvNxt
	blocked := f.has(ackNow) && left < firstWindow/2
	if f.has(guestFin) || left >= f.rcvSpan/2 && !blocked {
		return
	}
	s, errno := h.calls.SendSpace(int(f.fd))
	if errno != 0 {
		return
	}
	room := uint32(0)
	if s.LimitBytes > s.QueuedBytes {
		room = s.LimitBytes - s.QueuedBytes
	}
	room -= room / 32 // for the overhead of the kernel's buffers
	f.rcvSpan = max(room, 1)
	edge := f.hostTaken + room
	if before(f.rcvEdge, edge) {
		f.rcvEdge = edge
	}
	if left = f.rcvEdge - f.rcvNxt; left < min(2*uint32(f.guestMSS), s.LimitBytes/8) && !f.has(wantWritable) {
		f.set(wantWritable)
		h.rearm(i, f)
	}
}
