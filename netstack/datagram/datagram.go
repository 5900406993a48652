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
	Copied     uint64 // of these, copied because the reservation was too small
	Held       uint64 // had to wait for buffers
	Dropped    uint64 // waited too long, or cannot fit the driver's buffers
}

// Writer belongs to one goroutine and one queue.
type Writer struct {
	link  *link.Link
	queue *framequeue.Queue
	vecs  []iov.Vec
	sum   []iov.Vec // scratch
	room  int       // payload bytes reserved by Open
	// whole is private memory for one datagram: transport header, payload. It
	// is made when it is needed first.
	whole  []byte
	off    int // how much of it has gone as fragments
	id     uint32
	held   bool
	heldMs int64
	heldN  int
	heldP  Packet

	Counters Counters
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
// Each true is followed by Finish or Cancel.
func (w *Writer) Open(v6 bool, expectBytes int) ([]iov.Vec, bool) {
	if w.held {
		return nil, false
	}
	want := min(max(expectBytes, firstRoom), w.unfragmented(v6))
	room := w.queue.Begin(header.EthLen+ipLen(v6)+l4Bytes, want)
	if room == 0 {
		return nil, false
	}
	w.room = room
	w.vecs = append(w.vecs[:0], w.queue.Payload()...)
	w.vecs = append(w.vecs, iov.Of(w.private()[l4Bytes+room:]))
	return w.vecs, true
}

// private returns the memory for a whole datagram.
func (w *Writer) private() []byte {
	if w.whole == nil {
		w.whole = make([]byte, l4Bytes+maxPayload)
	}
	return w.whole
}

// Cancel ends what Open began: nothing was received.
func (w *Writer) Cancel() { w.queue.Cancel() }

// Finish makes the datagram whose payloadBytes were received since Open into
// one or more frames.
func (w *Writer) Finish(p *Packet, payloadBytes int) {
	if payloadBytes <= w.room {
		var hdr [maxHeaders]byte
		v, n := w.putHeaders(hdr[:], p, payloadBytes, w.vecs[:len(w.vecs)-1])
		w.queue.End(payloadBytes, v, hdr[:n])
		w.queue.Cancel()
		w.count(payloadBytes)
		return
	}
	// The beginning goes to where it would be had it all been received there.
	iov.CopyOut(w.whole[l4Bytes:l4Bytes+w.room], w.vecs, 0)
	w.queue.Cancel()
	w.Counters.Copied++
	w.writeOrHold(p, payloadBytes)
}

// Send makes a datagram whose payload is the first n bytes of vs, at most
// 65527, into frames. It returns false if nothing more can be taken now.
func (w *Writer) Send(p *Packet, vs []iov.Vec, n int) bool {
	if w.held {
		return false
	}
	n = iov.CopyOut(w.private()[l4Bytes:l4Bytes+min(n, maxPayload)], vs, 0)
	w.Counters.Copied++
	w.writeOrHold(p, n)
	return true
}

// Refilled is called when the guest has added buffers. It reports whether Open
// may succeed again.
func (w *Writer) Refilled() bool {
	if !w.held {
		return true
	}
	before := w.off
	switch w.write(&w.heldP, w.heldN) {
	case written:
		w.held = false
		return true
	case never:
		w.dropHeld()
		return true
	}
	if w.off != before {
		w.heldMs = w.link.NowMs
	}
	w.waitForMore()
	return false
}

func (w *Writer) dropHeld() {
	w.held, w.off = false, 0
	w.Counters.Dropped++
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
	w.dropHeld()
	return true
}

func (w *Writer) writeOrHold(p *Packet, payloadBytes int) {
	w.off = 0
	switch w.write(p, payloadBytes) {
	case written:
	case never:
		w.Counters.Dropped++
	case waits:
		w.waitForMore()
		w.Counters.Held++
		w.held, w.heldMs, w.heldN, w.heldP = true, w.link.NowMs, payloadBytes, *p
	}
}
