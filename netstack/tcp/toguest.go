package tcp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	// runBytes is what one flow may send to the guest before the others have
	// their turn.
	runBytes = 512 << 10
	// maxOpenFrames is how many frames one system call fills.
	maxOpenFrames = 64
	// discardBytes is the amount of acknowledged data that is worth a system
	// call to drop.
	discardBytes = 16 << 10
	// discardPeeks bounds the small messages that are kept below it: each costs
	// the kernel a buffer.
	discardPeeks = 32
	// promptBytes is the size from which a message that is acknowledged is dropped
	// at once, and promptGapMs the silence of the guest after which smaller ones
	// are, for promptMessages of them.
	promptBytes    = 2048
	promptGapMs    = 20
	promptMessages = 255
	// firstExpect is how much a socket is expected to have, before it was asked.
	firstExpect = 16 << 10
	minExpect   = 2048
	// maxIPPacket is the largest IP packet without BIG TCP.
	maxIPPacket = 65535
)

// toGuest sends what the socket of f has and the guest's window takes, up to
// the budget of a run.
func (h *Handler) toGuest(i uint32, f *flow) {
	left := runBytes
	for f.state == established {
		most := left
		if f.has(timedOut) && f.sndUna != f.sndMax {
			// The loss window (RFC 5681 section 3.1). A guest that is short of
			// memory drops large frames without a word, and takes a small one.
			if f.inFlight() > 0 {
				return
			}
			most = int(f.segmentBytes())
		}
		if f.has(hasHeld) && before(f.sndNxt, f.sndMax) {
			if n := h.toMissing(i, f); n > 0 {
				most = min(most, int(n))
			}
		}
		if f.has(hostEOF) && f.sndNxt == f.eofSeq {
			h.sendFin(i, f)
			return
		}
		if f.has(hostEOF) && f.sndNxt == f.eofSeq+1 {
			if f.has(hostFailed) {
				h.hostReset(i, f) // it ended, then refused what the guest sent
			}
			return
		}
		if !f.has(hostReadable) && !before(f.sndNxt, f.sndMax) {
			return
		}
		want, all := h.sendRoom(f)
		if want == 0 {
			f.set(windowFull)
			if f.inFlight() == 0 && !f.has(rtoArmed) {
				h.armRTO(i, f) // to probe the window
			}
			return
		}
		if left <= 0 {
			h.makeReady(i, f)
			return
		}
		n, more := h.sendData(i, f, min(want, most), all)
		left -= n
		if !more {
			return
		}
	}
}

// sendRoom is how many bytes the guest's window allows to be sent now: 0 where
// it is better to wait for more room, that is, where less than a segment fits
// and less than half of the largest window (RFC 1122 section 4.2.3.4). What is
// sent again does not wait. If so
// little is in flight that the guest may delay its acknowledgement, all is true:
// the room may be used if it takes everything that waits.
func (h *Handler) sendRoom(f *flow) (room int, all bool) {
	flight := f.inFlight()
	if flight >= f.sndWnd {
		return 0, false
	}
	free, segment := f.sndWnd-flight, f.segmentBytes()
	switch {
	case free >= segment:
		free -= free % segment
	case flight == 0 || free >= f.maxWnd/2 || before(f.sndNxt, f.sndMax):
	case flight < 2*segment:
		all = true
	default:
		return 0, false
	}
	if f.has(hostEOF) && f.eofSeq-f.sndNxt <= free {
		return int(f.eofSeq - f.sndNxt), false
	}
	return int(free), all
}

// framePayload is the most data of f that one ordinary frame carries: as many
// segments as fit an IP packet where the guest takes such frames, else one; and
// the most of a big frame, or 0.
func (h *Handler) framePayload(f *flow) (ordinary, big int) {
	tso := uint64(header.FeatureGuestTSO4)
	if f.v6() {
		tso = header.FeatureGuestTSO6
	}
	mss := int(f.segmentBytes())
	if !h.cfg.Link.Has(tso | header.FeatureGuestCsum) {
		return mss, 0
	}
	big = h.bigPayload(f)
	n := maxIPPacket - (headerBytes(f) - header.EthLen)
	return max(n-n%mss, mss), big - big%mss
}

// sendData peeks up to want bytes at sndNxt straight into frames for the guest;
// with all, it sends nothing if there may be more. It returns how many bytes
// went, and whether it is worth to go on.
func (h *Handler) sendData(i uint32, f *flow, want int, all bool) (n int, more bool) {
	if f.expect == 0 {
		f.expect = firstExpect
	}
	if !all {
		want = min(want, int(f.expect))
	}
	var rooms [maxOpenFrames]int32
	opened, total, options := h.openFrames(f, rooms[:], want)
	if total == 0 {
		h.park(i, f)
		return 0, false
	}
	n, total, errno := h.peek(f, total)
	if n <= 0 {
		h.cfg.Queue.Cancel()
		return 0, h.peekEnded(i, f, errno)
	}
	f.peekSeq = f.sndNxt + uint32(n)
	if all && n == total {
		h.cfg.Queue.Cancel()
		f.set(windowFull)
		return 0, false
	}
	f.peeks = min(f.peeks, 254) + 1
	if f.inFlight() == 0 && h.now()-f.seenAtMs >= promptGapMs {
		f.prompt = promptMessages
	}
	f.expect = uint32(max(2*n, minExpect))
	if n == total {
		f.expect = uint32(min(max(4*n, minExpect), runBytes))
	}
	drained, asked := n < total, f.big == bigAsked
	left := n
	for j := 0; j < opened && left > 0; j++ {
		m := min(left, int(rooms[j]))
		left -= m
		h.endFrame(f, m, drained && left == 0, options>>j&1 != 0)
	}
	h.cfg.Queue.Cancel()
	if f.big == bigAsked && !asked {
		h.nudgeGuest(f)
	}
	h.Counters.BytesToGuest += uint64(n)
	h.sent(i, f)
	if drained && !f.has(hostEnded|hostUrgent) {
		f.clear(hostReadable)
		return n, false
	}
	return n, true
}

// openFrames begins frames for up to want bytes. options has a bit for each that
// has room for the IPv6 option of a big frame.
func (h *Handler) openFrames(f *flow, rooms []int32, want int) (opened, total int, options uint64) {
	most, big := h.framePayload(f)
	for opened < len(rooms) && total < want {
		ask, hdr := min(want-total, most), headerBytes(f)
		if want-total > most && big > most && (opened == 0 || f.big == bigTaken) {
			ask = min(want-total, big)
			if more := h.bigHeaderBytes(f); more > 0 {
				hdr += more
				options |= 1 << opened
			}
		}
		room := h.cfg.Queue.Begin(hdr, ask)
		if room == 0 {
			break
		}
		rooms[opened] = int32(room)
		opened++
		total += room
		if room < ask {
			break
		}
	}
	return opened, total, options
}

// endFrame ends the oldest open frame with n bytes of data that begin at
// sndNxt, and moves sndNxt on. option says that there is room for the option of a
// big frame.
func (h *Handler) endFrame(f *flow, n int, last, option bool) {
	flags := uint8(header.TCPAck)
	if last {
		flags |= header.TCPPsh
	}
	v, hdr := header.Vnet{}, []byte(nil)
	if option {
		v, hdr = h.putOptionHeaders(f, f.sndNxt, flags, n)
	} else {
		v, hdr = h.putHeaders(f, f.sndNxt, flags, n)
	}
	if isBig(f, len(hdr)+n) {
		h.bigSent(f, n)
	}
	if mss := f.segmentBytes(); n > int(mss) {
		v.GSOType, v.GSOSize, v.HdrLen = header.GSOTCPv4, uint16(mss), uint16(len(hdr))
		if f.v6() {
			v.GSOType = header.GSOTCPv6
		}
	}
	if v.Flags&header.VnetNeedsCsum == 0 {
		l4 := len(hdr) - header.TCPLen
		h.peekVec = iov.AppendRange(h.peekVec[:0], h.cfg.Queue.FramePayload(), 0, n)
		header.SetChecksumVecs(hdr[l4:], h.peekVec, &f.key.Remote, &f.key.Local, header.ProtoTCP)
	}
	h.cfg.Queue.End(n, v, hdr)
	h.Counters.FramesToGuest++
	f.sndNxt += uint32(n)
}

// sent keeps the books after frames were made up to sndNxt.
func (h *Handler) sent(i uint32, f *flow) {
	if before(f.sndMax, f.sndNxt) {
		f.sndMax = f.sndNxt
		if !f.has(timing) {
			f.set(timing)
			f.timeSeq, f.timeAtMs = f.sndNxt, h.now()
		}
	}
	if !f.has(rtoArmed) {
		h.armRTO(i, f)
	}
}

// peek peeks at sndNxt into the open frames, room bytes in all. It returns how
// many bytes came, and how many there was room for in one system call.
func (h *Handler) peek(f *flow, room int) (n, asked int, errno hostsock.Errno) {
	vecs := h.cfg.Queue.Payload()
	if !h.peekOffset {
		return h.peekFromHead(f, vecs, room)
	}
	if len(vecs) > hostsock.MaxVecs {
		vecs = vecs[:hostsock.MaxVecs]
		room = iov.Len(vecs)
	}
	if errno := h.seekPeek(f); errno != 0 {
		return 0, room, errno
	}
	n, errno = h.calls.Peek(int(f.fd), vecs)
	return n, room, errno
}

// seekPeek makes the next peek start at sndNxt. The socket's peek offset is
// switched on only when one is needed: the many connections that bring one answer
// and end never do.
func (h *Handler) seekPeek(f *flow) hostsock.Errno {
	if !f.has(seeks) {
		if f.sndNxt != f.headSeq && f.has(hostEnded) && f.sndUna == f.sndNxt {
			h.discardAll(f) // due at the end anyway
		}
		if f.sndNxt == f.headSeq {
			return 0
		}
	}
	if f.has(seeks) && f.peekSeq == f.sndNxt {
		return 0
	}
	if errno := hostsock.SetPeekOffset(int(f.fd), int(f.sndNxt-f.headSeq)); errno != 0 {
		return errno
	}
	f.set(seeks)
	f.peekSeq = f.sndNxt
	return 0
}

// peekFromHead is peek without SO_PEEK_OFF (kernels before 6.9): each peek
// starts at the head of the queue, and what was sent already is copied once
// more, to nowhere.
func (h *Handler) peekFromHead(f *flow, vecs []iov.Vec, room int) (n, asked int, errno hostsock.Errno) {
	skip := int(f.sndNxt - f.headSeq)
	h.peekVec = h.peekVec[:0]
	for left := skip; left > 0; {
		if h.skip == nil {
			h.skip = make([]byte, 1<<20)
		}
		m := min(left, len(h.skip))
		h.peekVec = append(h.peekVec, iov.Of(h.skip[:m]))
		left -= m
	}
	h.peekVec = append(h.peekVec, vecs...)
	if len(h.peekVec) > hostsock.MaxVecs {
		h.peekVec = h.peekVec[:hostsock.MaxVecs]
		room = iov.Len(h.peekVec) - skip
	}
	n, errno = h.calls.Peek(int(f.fd), h.peekVec)
	switch {
	case errno != 0 || n > skip:
		return max(n-skip, 0), room, errno
	case f.has(hostEnded) && n == skip:
		return 0, room, 0 // what was sent is all that there will be
	}
	return 0, room, hostsock.EAGAIN // nothing behind it
}

// resumeMs is when flows go on for which there was no memory.
const resumeMs = 20

// peekEnded handles a peek that returned nothing: drained, the end, or an
// error. It reports whether to go on.
func (h *Handler) peekEnded(i uint32, f *flow, errno hostsock.Errno) bool {
	switch {
	case errno == hostsock.EFAULT:
		h.cfg.Link.MemoryGone = true
		h.park(i, f)
		return false
	case errno == hostsock.ENOMEM:
		// The kernel has none for a call of so many vectors. What is in the socket
		// stays there, and the poller does not tell of it again.
		h.park(i, f)
		h.resumeAtMs = h.cfg.Link.NowMs + resumeMs
		return false
	case errno == hostsock.EAGAIN && !before(f.sndNxt, f.sndMax):
		if f.has(hostFailed) {
			h.hostReset(i, f)
			return false
		}
		f.clear(hostReadable)
		return false
	case errno == 0 && !f.has(hostFailed) && !before(f.sndNxt, f.sndMax):
		f.set(hostEOF)
		f.clear(hostReadable)
		f.eofSeq = f.sndNxt
		return true // to send FIN
	}
	h.hostReset(i, f)
	return false
}

// sendFin tells the guest that the host's peer has ended, behind its last byte.
func (h *Handler) sendFin(i uint32, f *flow) {
	if !f.has(finSent) && f.has(wroteEnd) {
		f.set(finLast)
	}
	f.set(finSent)
	h.sendFlags(f, f.eofSeq, header.TCPFin|header.TCPAck)
	f.sndNxt = f.eofSeq + 1
	h.sent(i, f)
}

// discard drops what the guest has acknowledged from the socket's queue, if that
// is worth a system call.
//
// The kernel charges a buffer of its queue as a whole until its last byte is
// dropped, and merges what comes in to buffers of up to the receive window: a few
// bytes left of one can hold the window shut. So once a part of the queue was
// dropped, the rest of it goes as soon as all that was sent is acknowledged, until
// the queue was seen empty.
//
// The kernel acknowledges to the host's peer when data is dropped, for that is
// reading to it, or else after 40 ms; and a peer with Nagle's algorithm may hold
// back its next message until then. So a message of some size is dropped as soon
// as the guest has it all. A small one is not worth it where they come in quick
// succession; where they came slowly, that may be why.
func (h *Handler) discard(f *flow) {
	n := f.sndUna - f.headSeq
	if n >= discardBytes || f.peeks >= discardPeeks || f.has(hostUrgent) {
		h.discardAll(f)
		return
	}
	if f.sndUna != f.sndMax {
		return
	}
	if f.has(midQueue) {
		h.discardAll(f)
		return
	}
	if !f.has(hostReadable) && (n >= promptBytes || f.prompt > 0) {
		f.prompt -= min(f.prompt, 1)
		h.discardAll(f)
	}
}

// discardAll drops everything that the guest has acknowledged.
func (h *Handler) discardAll(f *flow) {
	end := f.sndUna
	if f.has(hostEOF) && before(f.eofSeq, end) {
		end = f.eofSeq // FIN is not in the queue
	}
	n := end - f.headSeq
	if n == 0 {
		return
	}
	f.peeks = 0
	if f.sndUna == f.sndMax && !f.has(hostReadable) {
		f.clear(midQueue) // the queue is empty now
	} else {
		f.set(midQueue)
	}
	if got, errno := h.calls.Discard(int(f.fd), int(n)); errno == 0 {
		f.headSeq += uint32(got)
	}
}

// rearm makes the poller tell of the socket's writability anew.
func (h *Handler) rearm(i uint32, f *flow) {
	_ = h.cfg.Poller.Rearm(int(f.fd), link.Token(h.cfg.FlowHandler, f.gen, i), everything)
}
