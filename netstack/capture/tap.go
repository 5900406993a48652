package capture

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// Direction of a frame, as the host sees it.
type Direction uint8

// The directions.
const (
	FromGuest Direction = iota
	ToGuest
)

// tapBytes is what a tap holds until the writer comes: a power of two, and
// 10 ms of frames at 10 Gbit/s.
const tapBytes = 16 << 20

// recordHead is, in front of each record: its length in the ring (4 bytes, 0
// for "go on at the ring's start"), the frame's whole length (4), the time in
// nanoseconds (8) and the direction (8, for alignment). Then the vnet header and
// what was kept of the frame.
const recordHead = 24

// Tap is where one worker leaves copies of its frames: a ring with one writer,
// the worker, and one reader, the goroutine of [Capture]. A frame for which
// there is no room is counted and not kept; the worker never waits.
//
// A nil Tap takes nothing.
type Tap struct {
	ring []byte
	snap int
	// on is false once nobody reads any more.
	on *atomic.Bool
	// wake tells the reader that there is much to do; it is never waited for.
	wake chan<- struct{}

	head    atomic.Uint64 // end of what was written, in bytes since the start
	dropped atomic.Uint64
	taken   atomic.Uint64 // frames
	missed  atomic.Uint64 // when nobody read any more
	_       [64]byte      // the reader's own cache line
	tail    atomic.Uint64 // end of what was read
}

func newTap(snap, bytes int, on *atomic.Bool, wake chan<- struct{}) *Tap {
	return &Tap{ring: make([]byte, bytes), snap: snap, on: on, wake: wake}
}

// FrameToGuest keeps a copy of a frame: the first totalBytes of vecs, vnet header
// in front. It belongs to the worker and allocates nothing.
func (t *Tap) FrameToGuest(vecs []iov.Vec, totalBytes int) { t.keep(ToGuest, vecs, totalBytes) }

// FrameFromGuest is the same for the other direction.
func (t *Tap) FrameFromGuest(vecs []iov.Vec, totalBytes int) { t.keep(FromGuest, vecs, totalBytes) }

func (t *Tap) keep(d Direction, vecs []iov.Vec, totalBytes int) {
	if t == nil {
		return
	}
	if !t.on.Load() {
		t.missed.Store(t.missed.Load() + 1)
		return
	}
	t.taken.Store(t.taken.Load() + 1)
	kept := min(totalBytes, header.VnetLen+t.snap)
	b := t.reserve(recordHead + kept)
	if b == nil {
		t.dropped.Store(t.dropped.Load() + 1)
		return
	}
	n := iov.CopyOut(b[recordHead:recordHead+kept], vecs, 0)
	binary.LittleEndian.PutUint32(b[4:], uint32(max(totalBytes-header.VnetLen, 0)))
	binary.LittleEndian.PutUint64(b[8:], uint64(time.Now().UnixNano()))
	binary.LittleEndian.PutUint64(b[16:], uint64(d)|uint64(n)<<8)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	t.head.Store(t.head.Load() + uint64(len(b)))
}

// reserve returns room for a record of n bytes in one piece, or nil.
func (t *Tap) reserve(n int) []byte {
	n = (n + 7) &^ 7
	head, size := t.head.Load(), uint64(len(t.ring))
	used := head - t.tail.Load()
	if used > size/4 {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	at := head & (size - 1)
	if left := size - at; left < uint64(n) {
		if used+left+uint64(n) > size {
			return nil
		}
		binary.LittleEndian.PutUint32(t.ring[at:], 0)
		t.head.Store(head + left)
		at = 0
	} else if used+uint64(n) > size {
		return nil
	}
	return t.ring[at : at+uint64(n)]
}

// record is a frame as it lies in a tap.
type record struct {
	vnet       header.Vnet
	frame      []byte // in the tap, until done
	frameBytes int    // of the whole frame
	timeNs     int64
	dir        Direction
	size       uint64 // of the record
}

// next returns the oldest record, to be given back with done before the next
// one.
func (t *Tap) next() (r record, ok bool) {
	for {
		tail, size := t.tail.Load(), uint64(len(t.ring))
		if tail == t.head.Load() {
			return r, false
		}
		b := t.ring[tail&(size-1):]
		n := binary.LittleEndian.Uint32(b)
		if n == 0 {
			t.tail.Store(tail + size - tail&(size-1))
			continue
		}
		info := binary.LittleEndian.Uint64(b[16:])
		data := b[recordHead : recordHead+int(info>>8)]
		r = record{
			frameBytes: int(binary.LittleEndian.Uint32(b[4:])),
			timeNs:     int64(binary.LittleEndian.Uint64(b[8:])),
			dir:        Direction(info & 0xff),
			size:       uint64(n),
		}
		if len(data) < header.VnetLen { // shorter than any frame
			return r, true
		}
		r.vnet, r.frame = header.ParseVnet(data[:header.VnetLen]), data[header.VnetLen:]
		return r, true
	}
}

func (t *Tap) done(r record) { t.tail.Store(t.tail.Load() + r.size) }
