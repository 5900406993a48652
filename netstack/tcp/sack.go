package tcp

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

// maxHeld is how many ranges are kept for a flow; what exceeds it is sent again
// though the guest has it.
const maxHeld = 4

// scoreboard is what the guest holds beyond what it has acknowledged (RFC 2018).
// Only flows that lose something have one.
type scoreboard struct {
	held   [maxHeld]header.SACKBlock // apart from each other, in order
	n      int
	resent uint32 // what is missing before this was sent again
}

// end is one past the last byte held; there must be one.
func (b *scoreboard) end() uint32 { return b.held[b.n-1].Right }

// bytes is how much is held.
func (b *scoreboard) bytes() (sum uint32) {
	for _, r := range b.held[:b.n] {
		sum += r.Right - r.Left
	}
	return sum
}

// add joins a range to those that it touches. If there are too many then, the
// last one that was known goes, since what it says will be said again.
func (b *scoreboard) add(r header.SACKBlock) {
	i := 0
	for i < b.n && before(b.held[i].Right, r.Left) {
		i++
	}
	j := i
	for ; j < b.n && !before(r.Right, b.held[j].Left); j++ {
		if before(b.held[j].Left, r.Left) {
			r.Left = b.held[j].Left
		}
		if before(r.Right, b.held[j].Right) {
			r.Right = b.held[j].Right
		}
	}
	if i == maxHeld {
		return
	}
	if i == j {
		b.n = min(b.n+1, maxHeld)
		copy(b.held[i+1:b.n], b.held[i:])
	} else {
		b.n = i + 1 + copy(b.held[i+1:], b.held[j:b.n])
	}
	b.held[i] = r
}

// acked drops what lies before seq.
func (b *scoreboard) acked(seq uint32) {
	i := 0
	for i < b.n && !before(seq, b.held[i].Right) {
		i++
	}
	b.n = copy(b.held[:], b.held[i:b.n])
	if b.n > 0 && before(b.held[0].Left, seq) {
		b.held[0].Left = seq
	}
}

// missing returns where, from seq on, data is missing that lies before some that
// is held, and how much. If nothing is missing, n is 0 and seq behind all that is
// held.
func (b *scoreboard) missing(seq uint32) (at, n uint32) {
	for _, r := range b.held[:b.n] {
		if before(seq, r.Left) {
			return seq, r.Left - seq
		}
		if before(seq, r.Right) {
			seq = r.Right
		}
	}
	return seq, 0
}

// sackFromGuest takes over what the guest says it holds. It is called after the
// acknowledgement was, with segments that have options.
func (h *Handler) sackFromGuest(i uint32, f *flow, t header.TCP) {
	var o header.TCPOptions
	t.ParseOptions(&o)
	b := h.held[i]
	if !f.has(hasHeld) {
		b = scoreboard{resent: f.sndUna}
	}
	b.acked(f.sndUna)
	for _, r := range o.SACK[:o.NumSACK] {
		// What lies before sndUna was received twice (RFC 2883).
		if !before(r.Left, f.sndUna) && before(r.Left, r.Right) && !before(f.sndMax, r.Right) {
			b.add(r)
		}
	}
	if b.n == 0 {
		h.dropHeld(i, f)
		return
	}
	f.set(hasHeld)
	h.held[i] = b
	switch recovering := !before(f.recover, f.sndUna); {
	case !recovering && b.bytes() > 2*f.segmentBytes():
		h.goBack(i, f) // as much as three duplicates would say (RFC 6675 section 4)
		h.armRTO(i, f)
	case recovering && f.sndNxt == f.sndMax && before(b.resent, b.end()):
		h.Counters.Retransmits++
		f.sndNxt = f.sndUna
		if before(f.sndNxt, b.resent) {
			f.sndNxt = b.resent
		}
		h.makeReady(i, f)
	}
}

// toMissing moves sndNxt, which is behind sndMax, to the next byte that the guest
// lacks and returns how many it lacks there. What lies behind all that it holds
// may only be on its way: it is not sent again.
func (h *Handler) toMissing(i uint32, f *flow) uint32 {
	b := h.held[i]
	at, n := b.missing(f.sndNxt)
	if n > 0 {
		f.sndNxt = at
		return n
	}
	b.resent = b.end()
	h.held[i] = b
	f.sndNxt = f.sndMax
	return 0
}

// dropHeld forgets what the guest holds.
func (h *Handler) dropHeld(i uint32, f *flow) {
	if f.has(hasHeld) {
		delete(h.held, i)
		f.clear(hasHeld)
	}
}
