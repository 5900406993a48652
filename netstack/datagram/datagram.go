// Package datagram writes datagrams that come from host sockets to the guest:
// received straight into the guest's buffers where they fit, cut into IP
// fragments where they exceed the guest's MTU, and never truncated.
//
// The way of one datagram: [Writer.Open] reserves buffers and tells where to
// receive to, the caller receives, and [Writer.Finish] makes the frame. Behind
// the guest's buffers, Open always adds private memory for the rest of the
// largest datagram there is, so that one system call suffices whatever comes.
// What turns out larger than reserved is copied once more.
//
// [Writer.OpenMany] does the same for several datagrams that one system call
// receives. A train of datagrams (UDP_GRO) becomes one frame if the guest cuts it
// (VIRTIO_NET_F_GUEST_USO4 and 6), else a frame for each. A UDP datagram that exceeds
// the MTU becomes one frame if the guest takes such (VIRTIO_NET_F_GUEST_UFO), and
// does not have to be put together there.
//
// A datagram for which the guest has no buffers any more is held until it has;
// meanwhile Open refuses and the others stay in their sockets. Its fragments go
// out as buffers come back, since a ring may be too small for all of them. When
// none has come for a second, what is left is dropped.
package datagram

import (
	"math/rand/v2"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	// l4Bytes is the size of the transport headers here: UDP and ICMP echo.
	l4Bytes = 8
	// maxPayload is the largest payload behind them.
	maxPayload = 65535 - l4Bytes
	// holdMs is how long a datagram waits for buffers, or its next fragment does,
	// before it is dropped.
	holdMs = 1000
	// ttl of datagrams towards the guest.
	ttl = 64
	// maxTrain bounds the payload of a frame that holds a train.
	maxTrain = 65535 - header.IPv6Len - l4Bytes
	// MaxMany is how many messages OpenMany makes room for.
	MaxMany = 16
	// firstRoom is what Open reserves at least: a datagram of the usual MTU.
	firstRoom = 1472
)

// Packet is what the headers of a datagram to the guest say.
type Packet struct {
	Src, Dst header.Addr
	Proto    uint8 // UDP, ICMP or ICMPv6
	// L4 is the transport header with checksum 0. The checksum is filled in,
	// and so is the length of UDP.
	L4 [l4Bytes]byte
}

// Counters count since the Writer was made.
type Counters struct {
	Datagrams  uint64 // written to the queue
	Bytes      uint64 // of their payload
	Fragmented uint64 // of these, written as fragments
	Trains     uint64 // frames that held several of these
	Copied     uint64 // messages copied because the reservation was too small
	Held       uint64 // had to wait for buffers
	Dropped    uint64 // waited too long, or cannot fit the driver's buffers
}

// Writer belongs to one goroutine and one queue.
type Writer struct {
	link  *link.Link
	queue *framequeue.Queue
	vecs  []iov.Vec
	sum   []iov.Vec // scratch
	slots [MaxMany]slot
	// What was received and is still to be written, next of jobs first, to p. off
	// is how much of the first datagram of these has gone as fragments.
	jobs   [MaxMany]job
	next   int
	njobs  int
	off    int
	p      Packet
	id     uint32
	held   bool
	heldMs int64

	Counters Counters
}

// slot is where one message is received: buffers of the guest, then private memory.
type slot struct {
	room int // payload bytes reserved in buffers of the guest
	vec  int // the first vector of it in Writer.vecs
	// whole is private memory for what one message can be at most: transport
	// header, payload. It is made when it is needed first.
	whole []byte
}

// job is a message in private memory.
type job struct {
	whole           []byte
	bytes, segBytes int // of payload, and of each datagram in it but the last
	pos             int // where the first datagram begins that is not written
}

// NewWriter returns a Writer to q.
func NewWriter(l *link.Link, q *framequeue.Queue) *Writer {
	return &Writer{link: l, queue: q, vecs: make([]iov.Vec, 0, 64), id: rand.Uint32()}
}

func ipLen(v6 bool) int {
	if v6 {
		return header.IPv6Len
	}
	return header.IPv4Len
}

// Open reserves room for a datagram of about expectBytes, to be received into
// the vectors it returns, which hold any datagram. It returns false if the
// guest has no buffers: the datagram is to stay in its socket until Refilled.
// Each true is followed by Finish, FinishTrain or Cancel.
func (w *Writer) Open(v6 bool, expectBytes int) ([]iov.Vec, bool) {
	if w.held {
		return nil, false
	}
	w.reset()
	most := w.mostBytes(v6)
	if w.segments(v6) {
		most = max(most, maxTrain)
	}
	if !w.reserve(0, v6, min(max(expectBytes, firstRoom), most), 1) {
		return nil, false
	}
	return w.vecs, true
}

// mostBytes is the payload of the largest datagram that goes into one frame.
func (w *Writer) mostBytes(v6 bool) int {
	if w.takesLarge() {
		return maxPayload
	}
	return w.unfragmented(v6)
}

// reset forgets what is kept; a fault in guest memory may have left some.
func (w *Writer) reset() { w.vecs, w.next, w.njobs, w.off = w.vecs[:0], 0, 0, 0 }

// reserve begins a frame for slot i.
func (w *Writer) reserve(i int, v6 bool, wantBytes, leastBytes int) bool {
	before := len(w.queue.Payload())
	room := w.queue.Begin(header.EthLen+ipLen(v6)+l4Bytes, wantBytes)
	if room < leastBytes {
		return false
	}
	s := &w.slots[i]
	s.room, s.vec = room, len(w.vecs)
	w.vecs = append(w.vecs, w.queue.Payload()[before:]...)
	w.vecs = append(w.vecs, iov.Of(s.private()[l4Bytes+room:]))
	return true
}

// private returns the memory for a whole message.
func (s *slot) private() []byte {
	if s.whole == nil {
		s.whole = make([]byte, l4Bytes+maxPayload)
	}
	return s.whole
}

// Cancel ends what Open or OpenMany began: nothing was received.
func (w *Writer) Cancel() { w.queue.Cancel() }

// Finish makes the datagram whose payloadBytes were received since Open into
// one or more frames.
func (w *Writer) Finish(p *Packet, payloadBytes int) { w.FinishTrain(p, payloadBytes, payloadBytes) }

// FinishTrain is Finish for a train of datagrams of segBytes each, but for the last,
// which may be shorter (UDP_GRO, udp(7)).
func (w *Writer) FinishTrain(p *Packet, payloadBytes, segBytes int) {
	s := &w.slots[0]
	if w.direct(p, s, payloadBytes, segBytes) {
		var hdr [maxHeaders]byte
		v, n := w.putHeaders(hdr[:], p, payloadBytes, segBytes, w.vecs[:len(w.vecs)-1])
		w.queue.End(payloadBytes, v, hdr[:n])
		w.queue.Cancel()
		w.count(payloadBytes, segBytes)
		return
	}
	w.keep(s, w.vecs, payloadBytes, segBytes)
	w.queue.Cancel()
	w.writeOrHold(p)
}

// direct reports whether what was received in s is the payload of one frame.
func (w *Writer) direct(p *Packet, s *slot, payloadBytes, segBytes int) bool {
	if payloadBytes > s.room {
		return false
	}
	v6 := !p.Dst.Is4()
	if payloadBytes <= segBytes {
		return payloadBytes <= w.unfragmented(v6) || p.Proto == header.ProtoUDP && w.takesLarge()
	}
	return segBytes <= w.unfragmented(v6) && payloadBytes <= maxTrain && w.segments(v6)
}

// keep moves a message out of the guest's buffers, to be written from private
// memory: its beginning goes to where it would be had it all been received there.
func (w *Writer) keep(s *slot, vs []iov.Vec, payloadBytes, segBytes int) {
	iov.CopyOut(s.private()[l4Bytes:l4Bytes+min(s.room, payloadBytes)], vs, 0)
	w.jobs[w.njobs] = job{whole: s.whole, bytes: payloadBytes, segBytes: segBytes}
	w.njobs++
	w.Counters.Copied++
}

// Send makes a datagram whose payload is the first n bytes of vs, at most
// 65527, into frames. It returns false if nothing more can be taken now.
func (w *Writer) Send(p *Packet, vs []iov.Vec, n int) bool {
	if w.held {
		return false
	}
	w.reset()
	n = min(n, maxPayload)
	w.slots[0].room = n
	w.keep(&w.slots[0], vs, n, n)
	w.writeOrHold(p)
	return true
}

// Refilled is called when the guest has added buffers. It reports whether Open
// may succeed again.
func (w *Writer) Refilled() bool {
	if !w.held {
		return true
	}
	next, pos, off := w.next, w.jobs[w.next].pos, w.off
	if w.writeJobs() {
		w.held = false
		return true
	}
	if w.next != next || w.jobs[w.next].pos != pos || w.off != off {
		w.heldMs = w.link.NowMs
	}
	w.waitForMore()
	return false
}

// waitForMore makes the queue starve: it had buffers, but too few for the whole
// datagram, which only who needs them can know.
func (w *Writer) waitForMore() { w.queue.WaitForMore() }

// NextDeadlineMs returns when Advance is due, or -1.
func (w *Writer) NextDeadlineMs() int64 {
	if !w.held {
		return -1
	}
	return w.heldMs + holdMs
}

// Advance drops a datagram that was held for too long. It reports whether Open
// may succeed again after it did not.
func (w *Writer) Advance() bool {
	if !w.held || w.link.NowMs < w.heldMs+holdMs {
		return false
	}
	for ; w.next < w.njobs; w.next++ {
		j := &w.jobs[w.next]
		w.Counters.Dropped += uint64(datagrams(j.bytes-j.pos, j.segBytes))
	}
	w.held = false
	w.reset()
	return true
}

// writeOrHold writes what was kept, or holds what there are no buffers for.
func (w *Writer) writeOrHold(p *Packet) {
	w.p = *p
	if !w.writeJobs() {
		w.waitForMore()
		w.Counters.Held++
		w.held, w.heldMs = true, w.link.NowMs
	}
}

// writeJobs goes on with what was kept. It returns false if it waits for buffers.
func (w *Writer) writeJobs() bool {
	for ; w.next < w.njobs; w.next++ {
		if !w.writeJob(&w.jobs[w.next]) {
			return false
		}
	}
	w.next, w.njobs = 0, 0
	return true
}

// writeJob writes the datagrams of j from pos on. Each is written from where it lies:
// its transport header takes the place of the end of the one before.
func (w *Writer) writeJob(j *job) bool {
	v6 := !w.p.Dst.Is4()
	for first := true; j.pos < j.bytes || first && j.bytes == 0; first = false {
		left := j.bytes - j.pos
		n := min(left, j.segBytes)
		if n < left && n <= w.unfragmented(v6) && w.segments(v6) {
			train := min(left, maxTrain/n*n)
			if w.write(j.whole[j.pos:j.pos+l4Bytes+train], n) == written {
				j.pos += train
				continue
			}
		}
		switch w.write(j.whole[j.pos:j.pos+l4Bytes+n], n) {
		case waits:
			return false
		case never:
			w.off = 0
			w.Counters.Dropped++
		}
		j.pos += n
	}
	return true
}
