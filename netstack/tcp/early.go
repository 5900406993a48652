package tcp

import (
	"encoding/binary"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	// maxEarlyPieces bounds the segments kept for a flow that came before their
	// turn. What exceeds it is sent again though we saw it.
	maxEarlyPieces = 256
	// maxSACKBlocks is how many ranges an acknowledgement reports: three fit
	// beside any other option (RFC 2018 section 3).
	maxSACKBlocks = 3
)

// early is what came from the guest before its turn, by sequence number, without
// overlaps. The ring keeps the order of frames; a guest that forwards or bridges
// may not have. Only flows that need one have one.
type early struct {
	pieces []piece
	latest uint32 // begins in the block to report first (RFC 2018 section 4)
}

// piece is a part of the stream, in private memory.
type piece struct {
	seq  uint32
	data []byte
}

func (p *piece) end() uint32 { return p.seq + uint32(len(p.data)) }

// pieceOverhead is about what a piece costs besides its data, in bytes.
const pieceOverhead = 64

// cost is what a piece counts for in stashBytes.
func (p *piece) cost() int { return len(p.data) + pieceOverhead }

// ahead handles a segment that begins behind what is expected: its data is kept,
// and it is answered at once, so that the guest counts duplicate
// acknowledgements. One without data is only answered if it lies outside of the
// window.
func (h *Handler) ahead(i uint32, f *flow, fr *link.Frame, seq uint32, n int, fin bool) {
	h.Counters.OutOfOrder++
	if n == 0 && !fin && !before(f.rcvEdge, seq) {
		return
	}
	h.flushGather() // so that the answer counts what came before
	if f.has(sackOK) && f.state == established && !f.has(guestFin) {
		h.keepEarly(i, f, fr, seq, n)
	}
	h.sendAck(i, f)
}

// sendAck sends an acknowledgement now.
func (h *Handler) sendAck(i uint32, f *flow) {
	if f.has(hasEarly) {
		h.sendSACK(i, f)
		return
	}
	h.sendFlags(f, bareSeq(f), header.TCPAck)
}

// keepEarly keeps the part of a segment that is within the window and not kept
// yet. What was reported is never dropped (RFC 2018 section 8).
func (h *Handler) keepEarly(i uint32, f *flow, fr *link.Frame, seq uint32, n int) {
	start, end := seq, seq+uint32(n)
	if before(f.rcvEdge, end) {
		end = f.rcvEdge
	}
	e := h.early[i]
	at := 0
	if e != nil {
		for at < len(e.pieces) && !before(start, e.pieces[at].end()) {
			at++
		}
		if at < len(e.pieces) && !before(start, e.pieces[at].seq) {
			start = e.pieces[at].end()
			at++
		}
		if at < len(e.pieces) && before(e.pieces[at].seq, end) {
			end = e.pieces[at].seq
		}
		e.latest = seq
	}
	size := int(int32(end - start))
	if size <= 0 || h.stashBytes+size+pieceOverhead > maxStashBytes || e != nil && len(e.pieces) >= maxEarlyPieces {
		return
	}
	data := make([]byte, size)
	iov.CopyOut(data, fr.Vecs, header.VnetLen+fr.Packet.Payload+int(start-seq))
	if e == nil {
		e = &early{latest: seq}
		h.early[i] = e
		f.set(hasEarly)
	}
	e.pieces = slices.Insert(e.pieces, at, piece{seq: start, data: data})
	h.stashBytes += size + pieceOverhead
}

// joinEarly adds what came early to the stream, as far as its turn has come.
func (h *Handler) joinEarly(i uint32, f *flow) {
	e := h.early[i]
	joined := false
	for len(e.pieces) > 0 && !before(f.rcvNxt, e.pieces[0].seq) {
		p := e.pieces[0]
		e.pieces[0] = piece{} // what is left of the slice must not hold its data
		e.pieces = e.pieces[1:]
		h.stashBytes -= p.cost()
		if before(f.rcvNxt, p.end()) {
			h.flushGather()
			if f.state != established || f.has(hostFailed) {
				break
			}
			h.stashData(i, f, []iov.Vec{iov.Of(p.data)}, int(f.rcvNxt-p.seq), int(p.end()-f.rcvNxt))
			joined = true
		}
	}
	if len(e.pieces) == 0 {
		h.dropEarly(i, f)
	}
	f.set(ackNow) // a segment that fills a gap (RFC 5681 section 4.2)
	h.oweAck(i, f)
	if joined {
		h.writable(i, f)
	}
}

func (h *Handler) dropEarly(i uint32, f *flow) {
	if !f.has(hasEarly) {
		return
	}
	for _, p := range h.early[i].pieces {
		h.stashBytes -= p.cost()
	}
	delete(h.early, i)
	f.clear(hasEarly)
}

// blocks returns what is kept as ranges, the one with the latest segment first.
func (e *early) blocks(dst []header.SACKBlock) []header.SACKBlock {
	first := 0
	for j := range e.pieces {
		p := &e.pieces[j]
		if n := len(dst); n > 0 && dst[n-1].Right == p.seq {
			dst[n-1].Right = p.end()
		} else {
			dst = append(dst, header.SACKBlock{Left: p.seq, Right: p.end()})
		}
		if !before(e.latest, p.seq) && before(e.latest, p.end()) {
			first = len(dst) - 1
		}
	}
	if len(dst) > 0 {
		dst[0], dst[first] = dst[first], dst[0]
	}
	return dst[:min(len(dst), maxSACKBlocks)]
}

// sendSACK sends an acknowledgement of f that reports what came early (RFC 2018
// section 4).
func (h *Handler) sendSACK(i uint32, f *flow) bool {
	var room [maxEarlyPieces]header.SACKBlock
	blocks := h.early[i].blocks(room[:0])
	opts := 4 + 8*len(blocks)
	n := h.putIP(h.scratch[:], &f.key, header.TCPLen+opts)
	t := header.TCPFields{
		SrcPort: f.key.RemotePort, DstPort: f.key.LocalPort,
		Seq: bareSeq(f), Ack: f.ackSeq(), Flags: header.TCPAck, Window: h.windowField(f),
	}
	o := h.scratch[n+header.PutTCP(h.scratch[n:], &t, opts):]
	o[0], o[1], o[2], o[3] = 1, 1, 5, byte(2+8*len(blocks)) // two no-operations, SACK
	for j, b := range blocks {
		binary.BigEndian.PutUint32(o[4+8*j:], b.Left)
		binary.BigEndian.PutUint32(o[8+8*j:], b.Right)
	}
	v, frame := h.offload(&f.key, n, header.TCPLen+opts, 0)
	return h.push(&f.key, v, frame)
}
