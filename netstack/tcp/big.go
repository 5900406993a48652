package tcp

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

const (
	// MaxBigBytes is the most TCP data that a frame to the guest may carry.
	MaxBigBytes = 512 << 10
	// maxUnanswered is how many questions a guest may leave without a clear
	// answer before it is asked no more.
	maxUnanswered = 3
)

// bigForm is how an IP header says that its packet is longer than its length
// field can.
type bigForm uint8

const (
	// bigLength0: by a length of 0. Linux takes that from 6.3 on for IPv4, from
	// 7.0 on for IPv6.
	bigLength0 bigForm = iota // where a guest begins
	// bigOption: by the jumbo payload option (IPv6 only).
	bigOption
	// bigNone: not at all, since the guest takes none of them.
	bigNone
)

// bigFamily is what is known of the guest's will to take big frames of one IP
// version.
type bigFamily struct {
	form       bigForm // in use, or being tried
	taken      bool    // the guest took one
	asking     bool    // a flow has the first one out
	unanswered uint8   // questions without a clear answer
}

// bigState is how far a flow has got with big frames.
type bigState uint8

const (
	bigNew   bigState = iota // the next one is a question
	bigAsked                 // its first one is out: bigSeq to bigEnd
	bigTaken                 // the guest took it
	bigNever                 // it did not, though it took those of others
)

func (h *Handler) bigFamily(f *flow) *bigFamily {
	if f.v6() {
		return &h.big[1]
	}
	return &h.big[0]
}

// bigPayload is the most data that a big frame of f may carry now, or 0 where a
// big frame is out of place: switched off or not agreed, not taken, one is out as
// a question, or something is being sent again. Two of them have to fit the
// guest's window, so that one is on its way while the other is worked on.
func (h *Handler) bigPayload(f *flow) int {
	if h.cfg.MaxFrameBytes == 0 || f.big == bigAsked || f.big == bigNever ||
		!f.has(sackOK) || !h.cfg.Queue.Mergeable() || before(f.sndNxt, f.sndMax) {
		return 0
	}
	fam := h.bigFamily(f)
	if fam.form == bigNone || !fam.taken && fam.asking {
		return 0
	}
	if f.big == bigNew && !before(f.recover, f.sndUna) {
		return 0 // what is said of losses now may be about earlier ones
	}
	return min(h.cfg.MaxFrameBytes, MaxBigBytes, int(f.maxWnd/2))
}

// bigHeaderBytes is what a big frame of f has more in headers than others.
func (h *Handler) bigHeaderBytes(f *flow) int {
	if f.v6() && h.big[1].form == bigOption {
		return header.JumboLen
	}
	return 0
}

// isBig reports whether the length of a packet to f's guest, in a frame of
// frameBytes, does not fit the length field of its IP header.
func isBig(f *flow, frameBytes int) bool {
	counted := frameBytes - header.EthLen
	if f.v6() {
		counted -= header.IPv6Len
	}
	return counted > maxIPPacket
}

// bigSent notes that a big frame with n bytes of data from sndNxt on is made.
func (h *Handler) bigSent(f *flow, n int) {
	h.Counters.BigToGuest++
	if f.big != bigNew {
		return
	}
	f.big = bigAsked
	f.bigSeq, f.bigEnd = f.sndNxt, f.sndNxt+uint32(n)
	h.bigFamily(f).asking = true
}

// nudgeGuest sends, behind the first big frame of f and what came with it, a byte
// that the guest has acknowledged long ago, as a keepalive does (RFC 1122 section
// 4.2.3.6). It is answered at once, and what the answer acknowledges says what
// became of the frame.
func (h *Handler) nudgeGuest(f *flow) {
	v, hdr := h.putHeaders(f, f.sndUna-1, header.TCPAck, 1)
	frame := h.scratch[:len(hdr)+1]
	frame[len(hdr)] = 0
	h.push(&f.key, v, frame)
}

// bigAnswer looks, while the first big frame of f is out, at an acknowledgement:
// has the guest taken the frame? It did if all of it is acknowledged. It did not if a
// part is; nor if what is acknowledged ends at the frame, and that is said in a
// duplicate, or in what the guest makes of the byte of nudgeGuest or of the data
// behind the frame.
func (h *Handler) bigAnswer(i uint32, f *flow, t header.TCP, duplicate bool) {
	switch {
	case !before(f.sndUna, f.bigEnd):
		fam := h.bigFamily(f)
		f.big, fam.taken, fam.asking, fam.unanswered = bigTaken, true, false, 0
	case before(f.sndUna, f.bigSeq):
	case f.sndUna == f.bigSeq && !duplicate && !passedBig(f, t):
	default:
		h.Counters.BigRefused++
		h.bigRefused(f)
		if before(f.recover, f.sndUna) {
			h.goBack(i, f)
			h.armRTO(i, f)
		}
	}
}

// passedBig reports whether a segment says that something came behind the first
// big frame of f: a single byte twice (RFC 2883 section 4), or later data.
func passedBig(f *flow, t header.TCP) bool {
	var o header.TCPOptions
	t.ParseOptions(&o)
	for _, r := range o.SACK[:o.NumSACK] {
		twice := r.Right-r.Left == 1 && !before(f.sndUna, r.Right)
		if twice || !before(r.Left, f.bigEnd) && !before(f.sndMax, r.Right) {
			return true
		}
	}
	return false
}

// bigRefused notes that the guest has not taken the big frame that f asked with.
// Of a guest that takes none so far, the next form is tried; if it takes those of
// others, this flow leads through something that does not.
func (h *Handler) bigRefused(f *flow) {
	fam := h.bigFamily(f)
	if fam.taken {
		f.big = bigNever
		return
	}
	f.big, fam.asking = bigNew, false
	fam.unanswered = 0
	if fam.form++; !f.v6() {
		fam.form = bigNone
	}
}

// bigUnanswered notes that f sends again all that is not acknowledged. If it has
// asked, there is no telling what became of the frame: more than that was lost, or
// nothing was answered at all.
func (h *Handler) bigUnanswered(f *flow) {
	if f.big != bigAsked {
		return
	}
	if fam := h.bigFamily(f); !fam.taken {
		if fam.unanswered++; fam.unanswered >= maxUnanswered {
			fam.form = bigNone
		}
	}
	h.bigForget(f)
}

// bigForget takes f back to where it has not sent a big frame: what is
// acknowledged from now on may be smaller ones, sent again.
func (h *Handler) bigForget(f *flow) {
	if f.big == bigAsked {
		h.bigFamily(f).asking = false
	}
	if f.big != bigNever {
		f.big = bigNew
	}
}

// ForgetGuest forgets what was learned about the guest's kernel: another one may
// have taken its place.
func (h *Handler) ForgetGuest() {
	for _, c := range h.flows.chunks {
		for j := range c {
			c[j].big = bigNew
		}
	}
	h.big = [2]bigFamily{{form: bigLength0}, {form: bigLength0}}
}
