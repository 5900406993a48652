package tcp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
)

// FromGuest handles one segment of the guest.
func (h *Handler) FromGuest(fr *link.Frame) {
	p := &fr.Packet
	t := header.TCP(fr.Head[p.L4:p.Payload])
	h.Counters.SegmentsFromGuest++
	k := flowtable.Key{
		Local: p.Src, Remote: p.Dst,
		LocalPort: p.SrcPort, RemotePort: p.DstPort, Proto: header.ProtoTCP,
	}
	i, ok := h.table.Lookup(&k)
	if !ok {
		h.unknown(&k, fr, t)
		return
	}
	f := h.flows.at(i)
	f.seenAtMs = h.now()
	if f.has(probing) {
		f.clear(probing)
		f.retries = 0
	}
	switch f.state {
	case connecting:
		h.whileConnecting(i, f, t)
	case synSent:
		h.guestAnswered(i, f, t)
	case synReceived:
		h.handshake(i, f, fr, t)
	case established:
		h.segment(i, f, fr, t)
	case timeWait, resetting:
		h.lateSegment(i, f, fr, t)
	}
}

// whileConnecting handles a segment for a flow whose SYN was not answered yet:
// the same SYN again opens nothing, a new one begins anew.
func (h *Handler) whileConnecting(i uint32, f *flow, t header.TCP) {
	flags := t.Flags()
	switch {
	case flags&header.TCPRst != 0:
		if t.Seq() == f.rcvNxt {
			h.abortHost(f)
			h.release(i, f)
		}
	case flags&(header.TCPSyn|header.TCPAck|header.TCPFin) == header.TCPSyn && t.Seq()+1 != f.rcvNxt:
		h.readSyn(f, t)
	}
}

// lateSegment handles a segment for a flow that is over (RFC 9293 section
// 3.10.7.4, TIME-WAIT).
func (h *Handler) lateSegment(i uint32, f *flow, fr *link.Frame, t header.TCP) {
	flags := t.Flags()
	switch {
	case flags&header.TCPRst != 0:
		h.release(i, f)
	case f.state == resetting:
		h.tellReset(i, f)
	case flags&(header.TCPSyn|header.TCPAck|header.TCPFin) == header.TCPSyn:
		k := f.key
		h.release(i, f) // the guest has used the 4-tuple anew (RFC 6191)
		h.noFlow(&k, fr, t)
	case t.Seq() != f.rcvNxt || flags&header.TCPFin != 0 || fr.Packet.End != fr.Packet.Payload:
		h.sendFlags(f, bareSeq(f), header.TCPAck) // ours was lost
	}
}

// noFlow handles a segment that belongs to no flow (RFC 9293 section 3.10.7.1).
func (h *Handler) noFlow(k *flowtable.Key, fr *link.Frame, t header.TCP) {
	flags := t.Flags()
	if flags&(header.TCPSyn|header.TCPAck|header.TCPRst|header.TCPFin) == header.TCPSyn {
		h.open(k, fr, t)
		return
	}
	if _, why := h.cfg.Map.FromGuest(&fr.Packet); flags&header.TCPRst != 0 || why != addrmap.OK {
		h.Counters.Dropped++
		return
	}
	n := uint32(fr.Packet.End - fr.Packet.Payload)
	if flags&header.TCPSyn != 0 {
		n++
	}
	if flags&header.TCPFin != 0 {
		n++
	}
	h.sendReset(k, t, n)
}

// handshake handles a segment for a flow whose SYN-ACK was sent (RFC 9293
// section 3.10.7.4, SYN-RECEIVED).
func (h *Handler) handshake(i uint32, f *flow, fr *link.Frame, t header.TCP) {
	flags := t.Flags()
	switch {
	case flags&header.TCPRst != 0:
		h.segment(i, f, fr, t)
	case flags&header.TCPSyn != 0 && t.Seq()+1 == f.rcvNxt:
		f.clear(timing)
		h.sendSyn(f, header.TCPSyn|header.TCPAck) // ours was lost
	case flags&header.TCPSyn != 0:
		h.sendFlags(f, bareSeq(f), header.TCPAck) // a challenge (RFC 5961 section 4.2)
	case flags&header.TCPAck == 0:
		h.Counters.Dropped++
	case t.Ack() != f.sndNxt:
		h.sendReset(&f.key, t, 0)
	default:
		h.sampleRTT(f)
		f.sndUna = f.sndNxt
		f.sndWnd = uint32(t.Window()) << f.sndShift
		f.maxWnd = max(f.maxWnd, f.sndWnd)
		h.establish(i, f)
		h.segment(i, f, fr, t)
	}
}

// segment handles a segment for an established flow, in the order of RFC 9293
// section 3.10.7.4: sequence number, RST, SYN, ACK, data, FIN.
func (h *Handler) segment(i uint32, f *flow, fr *link.Frame, t header.TCP) {
	flags, seq := t.Flags(), t.Seq()
	if flags&(header.TCPRst|header.TCPSyn) != 0 {
		h.resetOrSyn(i, f, flags, seq)
		return
	}
	if flags&header.TCPAck == 0 {
		h.Counters.Dropped++
		return
	}
	n := fr.Packet.End - fr.Packet.Payload
	fin := flags&header.TCPFin != 0
	if !h.ackFromGuest(i, f, t, n > 0 || fin) {
		return
	}
	finSeq, off := seq+uint32(n), 0
	if seq != f.rcvNxt {
		if before(f.rcvNxt, seq) {
			h.ahead(i, f, fr, seq, n, fin)
			return
		}
		old := int(f.rcvNxt - seq)
		if old > n || old == n && !fin {
			h.nothingNew(i, f, old, n)
			return
		}
		off, n = old, n-old
	}
	if f.has(guestFin) && (n > 0 || fin) {
		h.nothingNew(i, f, 0, n) // there is nothing behind a FIN
		return
	}
	if room := int(int32(f.rcvEdge - f.rcvNxt)); n > room {
		n, fin = max(room, 0), false // a probe of our window, or a bad guest
		f.set(ackNow)
		h.oweAck(i, f)
	}
	if n > 0 {
		h.dataFromGuest(i, f, fr, off, n)
	}
	if f.has(hasEarly) {
		h.joinEarly(i, f)
	}
	if fin && !f.has(guestFin) && f.state == established {
		h.finFromGuest(i, f, finSeq)
	}
}

// nothingNew answers a segment that ends before what is expected, n bytes of
// data that begin old bytes back: a repetition, or a probe that wants an answer
// (RFC 9293 section 3.8.4). A repetition of what is in the stash says that the
// guest has waited long; it must not give up for want of an answer, and the
// stash is not going to be lost. A guest that probes an idle connection wants to know
// of the peer behind us, so the host's kernel has to ask that one.
func (h *Handler) nothingNew(i uint32, f *flow, old, n int) {
	f.set(ackNow)
	h.oweAck(i, f)
	if f.has(hasStash) && n > 0 {
		f.set(ackStash)
	}
	if old == 1 && n <= 1 && !f.has(kept) && f.rcvEdge != f.rcvNxt {
		f.set(kept)
		hostsock.SetKeepalive(int(f.fd))
	}
}

// resetOrSyn handles RST and SYN for an established flow (RFC 5961 sections 3.2
// and 4.2).
func (h *Handler) resetOrSyn(i uint32, f *flow, flags uint8, seq uint32) {
	if flags&header.TCPRst != 0 {
		switch {
		// What we have acknowledged last is where a guest that knows nothing of
		// the connection any more puts its RST.
		case seq == f.rcvNxt || seq == f.lastAcked:
			h.flushGather()
			if f.state != free {
				h.abortHost(f)
				h.release(i, f)
			}
			return
		case before(seq, f.rcvNxt) || before(f.rcvEdge, seq):
			h.Counters.Dropped++
			return
		}
	}
	h.sendFlags(f, bareSeq(f), header.TCPAck) // a challenge
}

// ackFromGuest handles the acknowledgement and window of a segment. carries
// says that the segment has data or FIN. It reports false when the segment is
// to be dropped.
func (h *Handler) ackFromGuest(i uint32, f *flow, t header.TCP, carries bool) bool {
	ack := t.Ack()
	if before(f.sndMax, ack) {
		h.sendFlags(f, bareSeq(f), header.TCPAck) // of what was never sent
		return false
	}
	if before(ack, f.sndUna) {
		return true // old
	}
	wnd, seq := uint32(t.Window())<<f.sndShift, t.Seq()
	duplicate := false
	switch {
	case ack != f.sndUna:
		h.acked(i, f, ack)
		h.windowFromGuest(i, f, seq, wnd)
	case before(seq, f.sndWl1):
		// An old segment, or a probe: it says nothing about the window.
	default:
		if !carries && wnd == f.sndWnd && f.inFlight() > 0 && !before(seq, f.rcvNxt) {
			duplicate = true
			h.duplicateAck(i, f)
		}
		h.windowFromGuest(i, f, seq, wnd)
	}
	if f.big == bigAsked {
		h.bigAnswer(i, f, t, duplicate)
	}
	if f.has(sackOK) && (len(t) > header.TCPLen || f.has(hasHeld)) {
		h.sackFromGuest(i, f, t)
	}
	if f.has(finSent) && f.sndUna == f.eofSeq+1 {
		h.closeIfDone(i, f)
	}
	return f.state != free
}

// acked moves on to an acknowledgement of something new.
func (h *Handler) acked(i uint32, f *flow, ack uint32) {
	f.sndUna = ack
	if before(f.sndNxt, ack) {
		f.sndNxt = ack // it was sent before we went back
	}
	if before(f.recover, ack) {
		f.recover = ack - 1
	}
	f.dupAcks, f.retries = 0, 0
	if f.has(timedOut) {
		f.clear(timedOut)
		h.makeReady(i, f)
	}
	if f.has(timing) && atOrAfter(ack, f.timeSeq) {
		h.sampleRTT(f)
	}
	if f.sndUna == f.sndMax {
		f.clear(rtoArmed)
	} else {
		f.rtoAtMs = h.now() + f.rtoMs
		if f.wheelAt > h.cfg.Link.NowMs+int64(f.rtoMs) {
			h.schedule(i, f) // it was set by a timer that had backed off
		}
	}
	h.discard(f)
	if f.has(hostUrgent) {
		f.set(hostReadable) // a peek ends at the urgent byte, or begins there
		h.makeReady(i, f)
	}
}

// windowFromGuest takes over the window that the guest offers in the segment at
// seq (RFC 9293 section 3.10.7.4, SND.WND).
func (h *Handler) windowFromGuest(i uint32, f *flow, seq, wnd uint32) {
	was := f.sndWnd
	f.sndWl1, f.sndWnd = seq, wnd
	f.maxWnd = max(f.maxWnd, wnd)
	switch {
	case was == 0 && wnd > 0:
		// What was sent beyond the closed window, a probe above all, was not
		// taken: begin behind what is acknowledged, with timers as new.
		h.dropHeld(i, f)
		h.bigForget(f)
		f.sndNxt, f.retries = f.sndUna, 0
		f.clear(windowFull | rtoArmed | timing | timedOut)
		h.makeReady(i, f)
	case !f.has(windowFull):
	case wnd > was || f.inFlight() < wnd:
		f.clear(windowFull)
		h.makeReady(i, f)
	case f.inFlight() == 0 && !f.has(rtoArmed):
		h.armRTO(i, f) // it closed behind the last byte: to probe it
	}
}

// finFromGuest takes the guest's FIN, every byte before which is taken or in
// the stash.
//
// It does not count while bytes before it, which ends at finSeq, were refused: the
// guest has to send those again, and FIN with them.
func (h *Handler) finFromGuest(i uint32, f *flow, finSeq uint32) {
	h.flushGather()
	if f.state != established || f.has(hostFailed) || f.rcvNxt != finSeq {
		return
	}
	f.set(guestFin)
	if f.has(finSent) {
		f.set(ackNow) // nothing follows that could carry it
	}
	f.rcvNxt++
	h.oweAck(i, f)
	h.endToHost(i, f)
}
