// Package framequeue holds the one ordered queue of frames towards the guest.
//
// Payload frames and flag frames (SYN-ACK, ACK, FIN, RST, replies of the small
// services) of every flow go through the one [Queue] of their queue pair, in
// the order in which they are made. A frame takes its place on the ring when
// it is made and becomes visible with the next [Queue.Flush]; there is no second
// list on which a flag could overtake a payload.
//
// # The way of a frame
//
// A payload frame begins with [Queue.Begin], which takes buffers of the driver
// for headers and payload. The caller receives from its socket straight into
// [Queue.Payload] and ends each frame with [Queue.End], which writes the
// headers in front. Several frames can be open at a time, so that one system
// call fills them all. [Queue.Cancel] gives back what was not used, as if it
// had never been taken.
//
// A flag frame is handed over whole, with [Queue.Push].
//
// # An empty ring
//
// When the driver's buffers are used up, Begin reports no room and the caller
// parks its flow: the payload stays in the socket. Frames pushed meanwhile wait
// inside of the queue, up to a bound, in their order, and no payload frame can
// begin before they are placed. The owner calls [Queue.Arm] before it sleeps
// and [Queue.Refill] when the driver has added buffers.
//
// A Queue belongs to one goroutine.
package framequeue

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// Ring is what the queue needs of the ring towards the guest. A
// virtqueue.Queue whose driver gives buffers to write is one.
type Ring interface {
	// Take appends the vectors of the next buffer to dst.
	Take(dst []iov.Vec) (vecs []iov.Vec, token uint32, err error)
	// Untake gives back the last n buffers that were taken and not returned.
	Untake(n int)
	// Return stages a buffer of which the first writtenBytes were written.
	Return(token uint32, writtenBytes uint32)
	// Publish makes the staged buffers visible; it says whether to call.
	Publish() (call bool)
	// SuppressKicks tells the driver that kicks are not needed.
	SuppressKicks()
	// ArmKicks asks for a kick when the driver adds a buffer.
	ArmKicks() (more bool)
	// Pending looks how many buffers could be taken now.
	Pending() int
	// Known is Pending as of the last look, which a Take that found nothing was.
	Known() int
}

// Caller tells the driver to look at its ring. It never blocks.
type Caller interface{ Call() }

// Tap sees each frame that goes on the ring: the first totalBytes of vecs, vnet
// header in front. The vectors are guest memory, valid during the call.
type Tap interface {
	FrameToGuest(vecs []iov.Vec, totalBytes int)
}

// Format is how the driver and we agreed to lay out frames.
type Format struct {
	// Mergeable says that a frame may span buffers (VIRTIO_NET_F_MRG_RXBUF).
	Mergeable bool
}

// Counters count since the queue was made.
type Counters struct {
	Frames   uint64 // placed on the ring
	Bytes    uint64 // of these frames, without the vnet header
	Flushes  uint64 // that made a frame visible
	Calls    uint64 // to the driver
	Starved  uint64 // times that the ring had too few buffers
	TooSmall uint64 // buffers that could hold no frame, given back empty
	Dropped  uint64 // pushed frames dropped: no ring, too many waiting, too large
}

// buffer is one buffer of the driver, taken and not yet returned.
type buffer struct {
	token uint32
	bytes uint32
}

// openFrame is a frame between Begin and End.
type openFrame struct {
	buffers  int // how many it holds
	vecs     int // how many vectors these are
	capacity int // bytes of all of them
	room     int // bytes of payload that it can take
	payload  int // where its payload begins in Queue.payload
}

// Queue is the ordered queue towards the guest. See the package text.
type Queue struct {
	ring    Ring
	caller  Caller
	format  Format
	tap     Tap
	enabled bool
	starved bool
	seen    int // buffers that were there, but too few, when it starved
	err     error

	// What is taken and not returned: buffers and their vectors, first those
	// of the oldest open frame.
	buffers []buffer
	vecs    []iov.Vec
	open    []openFrame
	payload []iov.Vec

	staged bool
	// unflushed counts the frames that the driver does not see yet, flushFrames
	// is how many of them it is made to see at the latest.
	unflushed, flushFrames int
	waiting                waitingFrames
	head                   [header.VnetLen + maxHeaderBytes]byte

	Counters Counters
}

// maxHeaderBytes bounds the headers given to End.
const maxHeaderBytes = 256

// minBufferBytes is the smallest buffer that a driver may give where frames
// cannot span buffers (virtio 1.2, 5.1.6.3.1). Smaller ones are taken as long as
// they hold something.
const minBufferBytes = header.VnetLen + header.EthLen + 1500

// initialVecs is enough for a frame of 512 KiB in the smallest buffers that
// Linux posts (1536 bytes), twice over.
const initialVecs = 1024

// New returns a queue without a ring.
func New() *Queue {
	return &Queue{
		buffers: make([]buffer, 0, initialVecs),
		vecs:    make([]iov.Vec, 0, initialVecs),
		payload: make([]iov.Vec, 0, initialVecs),
		open:    make([]openFrame, 0, 64),
		waiting: newWaitingFrames(),

		flushFrames: DefaultFlushFrames,
	}
}

// Attach gives the queue its ring. Frames that waited for an earlier ring are
// dropped: they were meant for a driver that is gone.
func (q *Queue) Attach(r Ring, c Caller, f Format) {
	q.Detach()
	q.ring, q.caller, q.format = r, c, f
	q.starved = true // so that whoever waits for buffers is told of these
}

// Detach takes the ring away. Nothing of it is touched afterwards.
func (q *Queue) Detach() {
	if q.ring != nil {
		q.Cancel()
		q.Flush()
	}
	q.Abandon()
}

// Abandon is Detach for a ring whose memory must not be touched any more. What was
// not flushed is lost.
func (q *Queue) Abandon() {
	q.reset()
	q.ring, q.caller, q.err = nil, nil, nil
	q.starved, q.staged, q.seen, q.unflushed = false, false, 0, 0
	q.Counters.Dropped += uint64(q.waiting.reset())
}

// SetEnabled lets frames out (true) or holds all back (false), as
// VHOST_USER_SET_VRING_ENABLE says. A disabled ring is not touched.
func (q *Queue) SetEnabled(on bool) { q.enabled = on }

// Attached says whether there is a ring that takes frames.
func (q *Queue) Attached() bool { return q.ring != nil && q.enabled }

// HasRing says whether there is a ring, enabled or not.
func (q *Queue) HasRing() bool { return q.ring != nil }

// Mergeable says whether frames may span buffers.
func (q *Queue) Mergeable() bool { return q.format.Mergeable }

// Err returns why the ring is broken, or nil.
func (q *Queue) Err() error { return q.err }

// Starved says that a frame found too few buffers since the last Refill.
func (q *Queue) Starved() bool { return q.starved }

// Begin opens a frame for hdrBytes of headers (Ethernet and up, at most 256)
// and up to maxPayload bytes behind them. It returns how many bytes of payload
// the frame can take: fewer than asked where the driver's buffers end, 0 when
// there are none, when flags wait in front, or when there is no ring. It must
// be ended or cancelled before Push or Flush. A caller that gets 0 while it has
// frames open ends those before it asks again.
func (q *Queue) Begin(hdrBytes, maxPayload int) (room int) {
	if !q.Attached() || q.waiting.any() {
		q.starved = true
		return 0
	}
	overhead := header.VnetLen + hdrBytes
	f, ok := q.fit(overhead+maxPayload, overhead+1)
	if !ok {
		return 0
	}
	f.room = min(f.capacity-overhead, maxPayload)
	f.payload = len(q.payload)
	q.open = append(q.open, f)
	q.payload = iov.AppendRange(q.payload, q.vecs[len(q.vecs)-f.vecs:], overhead, f.room)
	return f.room
}

// fit takes buffers for a frame of need bytes, at least least of which must be
// there. Buffers that are too few go back to the ring until there are more. A
// single buffer that is too small is given to the driver empty, since the next
// frame would only meet it again, and the one behind it is tried; but not while
// frames are open, which could not be cancelled any more.
func (q *Queue) fit(need, least int) (f openFrame, ok bool) {
	for {
		f = q.take(need)
		if f.capacity >= least {
			return f, true
		}
		if q.format.Mergeable || f.buffers == 0 || f.capacity >= minBufferBytes || len(q.open) > 0 {
			q.drop(f, f.buffers)
			q.starve()
			return f, false
		}
		q.Counters.TooSmall++
		q.ring.Return(q.buffers[len(q.buffers)-1].token, 0)
		q.staged = true
		q.drop(f, 0)
	}
}

// WaitForMore makes the queue starve though there are buffers: Begin found too
// few for what the caller has to place. It must not be called while frames are
// open.
func (q *Queue) WaitForMore() {
	if q.Attached() && q.err == nil {
		q.starve()
		return
	}
	q.starved = true
}

// take takes buffers for need bytes, or what there is.
func (q *Queue) take(need int) (f openFrame) {
	for f.capacity < need {
		before := len(q.vecs)
		vecs, token, err := q.ring.Take(q.vecs)
		if err != nil {
			if err != virtqueue.ErrEmpty {
				q.err = err
			}
			break
		}
		q.vecs = vecs
		n := iov.Len(vecs[before:])
		q.buffers = append(q.buffers, buffer{token: token, bytes: uint32(n)})
		f.buffers++
		f.vecs += len(vecs) - before
		f.capacity += n
		if !q.format.Mergeable {
			break
		}
	}
	return f
}

// drop forgets the newest take; untake of its buffers go back to the ring.
func (q *Queue) drop(f openFrame, untake int) {
	q.ring.Untake(untake)
	q.buffers = q.buffers[:len(q.buffers)-f.buffers]
	q.vecs = q.vecs[:len(q.vecs)-f.vecs]
}

func (q *Queue) starve() {
	if !q.starved {
		q.Counters.Starved++
	}
	q.starved = true
	// Not Pending: the driver may have added buffers since Take found too few,
	// and must not be believed to have added none.
	q.seen = q.ring.Known()
}

// Payload returns where the payload of all open frames goes, in their order.
// It is valid until the next call of another method.
func (q *Queue) Payload() []iov.Vec { return q.payload }

// FramePayload returns where the payload of the oldest open frame goes, and that of
// the frames behind it. It is valid until the next call of another method.
func (q *Queue) FramePayload() []iov.Vec { return q.payload[q.open[0].payload:] }

// End closes the oldest open frame: hdr, as long as Begin was told, goes in
// front of the first payloadBytes bytes of its payload. NumBuffers of v is
// filled in. A frame that is ended with less than its room gives its spare
// buffers back and cancels all frames opened after it.
func (q *Queue) End(payloadBytes int, v header.Vnet, hdr []byte) {
	short := payloadBytes < q.open[0].room
	if !q.end(payloadBytes, v, hdr) || short {
		q.ring.Untake(len(q.buffers))
		q.reset()
	}
}

// EndOne is End for frames that have nothing to do with each other: those opened
// after this one stay open. It does nothing and returns false where that cannot be,
// since the frame would leave buffers unused in front of theirs.
func (q *Queue) EndOne(payloadBytes int, v header.Vnet, hdr []byte) bool {
	f := q.open[0]
	spare := f.capacity - (header.VnetLen + len(hdr) + payloadBytes)
	if len(q.open) > 1 && spare >= int(q.buffers[f.buffers-1].bytes) {
		return false
	}
	if !q.end(payloadBytes, v, hdr) {
		q.ring.Untake(len(q.buffers))
		q.reset()
	}
	return true
}

// end closes the oldest open frame, and forgets it and the buffers that it used. It
// returns false if spare ones are left of it.
func (q *Queue) end(payloadBytes int, v header.Vnet, hdr []byte) (all bool) {
	f := q.open[0]
	left := header.VnetLen + len(hdr) + payloadBytes
	q.Counters.Bytes += uint64(left - header.VnetLen)
	q.Counters.Frames++
	used := 0
	for used < f.buffers && left > 0 {
		n := min(left, int(q.buffers[used].bytes))
		q.ring.Return(q.buffers[used].token, uint32(n))
		left -= n
		used++
	}
	v.NumBuffers = uint16(used)
	v.Put(q.head[:])
	n := header.VnetLen + copy(q.head[header.VnetLen:], hdr)
	iov.CopyIn(q.vecs[:f.vecs], 0, q.head[:n])
	if q.tap != nil {
		q.tap.FrameToGuest(q.vecs[:f.vecs], n+payloadBytes)
	}
	q.frameDone()
	q.buffers = q.buffers[:copy(q.buffers, q.buffers[used:])]
	q.vecs = q.vecs[:copy(q.vecs, q.vecs[f.vecs:])]
	q.open = q.open[:copy(q.open, q.open[1:])]
	if used < f.buffers {
		return false
	}
	if len(q.open) == 0 {
		q.reset()
	}
	return true
}

// Cancel gives the buffers of all open frames back to the ring.
func (q *Queue) Cancel() {
	if len(q.buffers) > 0 {
		q.ring.Untake(len(q.buffers))
	}
	q.reset()
}

func (q *Queue) reset() {
	q.buffers, q.vecs, q.open, q.payload = q.buffers[:0], q.vecs[:0], q.open[:0], q.payload[:0]
}

// Push queues a whole frame: v in front of the bytes of frame, which are
// copied. It reports false when the frame was dropped: there is no ring, too
// many frames wait already, or a buffer of the driver is too small for it and
// frames may not span buffers.
func (q *Queue) Push(v header.Vnet, frame []byte) bool {
	if !q.Attached() {
		q.starved = q.starved || q.ring != nil // who waits is told when it is enabled
		q.Counters.Dropped++
		return false
	}
	if !q.waiting.any() {
		placed, wait := q.place(v, frame)
		if !wait {
			return placed
		}
	}
	if !q.waiting.push(v, frame) {
		q.Counters.Dropped++
		return false
	}
	return true
}

// place puts a whole frame on the ring. If it does not, wait says whether the
// frame can be placed later; otherwise it was counted as dropped.
func (q *Queue) place(v header.Vnet, frame []byte) (placed, wait bool) {
	need := header.VnetLen + len(frame)
	f, ok := q.fit(need, need)
	if !ok {
		if f.buffers > 0 && !q.format.Mergeable {
			q.Counters.Dropped++
			return false, false
		}
		return false, true
	}
	vecs := q.vecs[len(q.vecs)-f.vecs:]
	v.NumBuffers = uint16(f.buffers)
	v.Put(q.head[:])
	iov.CopyIn(vecs, 0, q.head[:header.VnetLen])
	iov.CopyIn(vecs, header.VnetLen, frame)
	if q.tap != nil {
		q.tap.FrameToGuest(vecs, need)
	}
	left := need
	for _, b := range q.buffers[len(q.buffers)-f.buffers:] {
		n := min(left, int(b.bytes))
		q.ring.Return(b.token, uint32(n))
		left -= n
	}
	q.drop(f, 0)
	q.frameDone()
	q.Counters.Frames++
	q.Counters.Bytes += uint64(len(frame))
	return true, false
}

// DefaultFlushFrames is how many frames are made visible at once at most; the
// table in docs/performance.md is why.
const DefaultFlushFrames = 64

// SetFlushFrames changes that. A flush also comes at the end of each turn.
func (q *Queue) SetFlushFrames(n int) { q.flushFrames = n }

// SetTap shows all frames to t from now on.
func (q *Queue) SetTap(t Tap) { q.tap = t }

// frameDone notes a frame that is ready for the driver.
func (q *Queue) frameDone() {
	q.staged = true
	if q.unflushed++; q.unflushed >= q.flushFrames {
		q.Flush()
	}
}

// Flush makes every frame made so far visible to the driver, with one index
// update and at most one call.
func (q *Queue) Flush() {
	if !q.staged {
		return
	}
	q.staged, q.unflushed = false, 0
	q.Counters.Flushes++
	if q.ring.Publish() {
		q.Counters.Calls++
		q.caller.Call()
	}
}

// Arm asks the driver for a kick when it adds buffers. It reports true when it
// has added some since the queue starved: then Refill is due now.
func (q *Queue) Arm() (more bool) {
	if !q.Attached() || q.err != nil {
		return false
	}
	q.ring.ArmKicks()
	return q.ring.Pending() > q.seen
}

// Refill is called when the driver may have added buffers: waiting frames are
// placed first. It reports whether frames can begin again. Without a ring that
// takes frames it does nothing: the queue stays starved until there is one.
func (q *Queue) Refill() bool {
	if !q.Attached() || q.err != nil {
		return false
	}
	q.starved = false
	q.ring.SuppressKicks()
	for q.waiting.any() {
		v, frame := q.waiting.front()
		if _, wait := q.place(v, frame); wait {
			return false
		}
		q.waiting.pop()
	}
	return true
}
