package framequeue

import (
	"bytes"
	"errors"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// expect checks what the driver received since the last time.
func (r *rig) expect(want ...[]byte) {
	r.t.Helper()
	got := r.take()
	if len(got) != len(want) {
		r.t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i, g := range got {
		if !bytes.Equal(g.frame, want[i]) {
			r.t.Fatalf("frame %d: %d bytes, or their content, differ from the %d wanted", i, len(g.frame), len(want[i]))
		}
	}
}

func (r *rig) giveN(n int, sizes ...int) {
	r.t.Helper()
	for range n {
		if _, ok := r.give(sizes...); !ok {
			r.t.Fatal("ring is full")
		}
	}
}

func TestFramesBecomeVisibleWithFlushOnly(t *testing.T) {
	r := newRig(t, 16, true, true)
	r.giveN(8, 1526)
	a, b := numbered(1, 54), numbered(2, 60)
	if !r.q.Push(header.Vnet{}, a) || !r.q.Push(header.Vnet{}, b) {
		t.Fatal("Push failed")
	}
	r.expect()
	r.q.Flush()
	if r.calls != 1 {
		t.Errorf("%d calls, want 1", r.calls)
	}
	r.expect(a, b)
	r.q.Flush()
	if c := r.q.Counters; c.Flushes != 1 || c.Frames != 2 || c.Bytes != 114 || c.Calls != 1 {
		t.Errorf("counters %+v", c)
	}
}

// TestFlushesAreBounded: the driver sees the first frames of a long turn while the
// others are being made.
func TestFlushesAreBounded(t *testing.T) {
	r := newRig(t, 16, true, true)
	r.giveN(8, 1526)
	r.q.SetFlushFrames(2)
	frame := numbered(1, 54)
	for _, want := range []int{0, 2, 0, 2, 0} {
		if !r.q.Push(header.Vnet{}, frame) {
			t.Fatal("Push failed")
		}
		if got := len(r.take()); got != want {
			t.Errorf("%d frames became visible, want %d", got, want)
		}
	}
	if r.q.Begin(54, 100) == 0 {
		t.Fatal("no room")
	}
	r.q.End(100, header.Vnet{}, frame)
	if got := len(r.take()); got != 2 {
		t.Errorf("%d frames became visible, want 2", got)
	}
}

// TestWaitForMore: who needs more buffers than there are waits for others to come,
// whatever size those that are there claim to be, and holds none.
func TestWaitForMore(t *testing.T) {
	r := newRig(t, 16, true, true)
	r.giveN(2, 1<<16)
	if r.q.Begin(54, 1<<18) == 0 {
		t.Fatal("no room")
	}
	r.q.Cancel()
	r.q.WaitForMore()
	if !r.q.Starved() || r.q.Arm() {
		t.Error("the queue does not wait")
	}
	r.giveN(1, 1526)
	if !r.q.Arm() || !r.q.Refill() {
		t.Error("a new buffer does not end the wait")
	}
	frame := numbered(1, 54)
	r.q.Push(header.Vnet{}, frame)
	r.q.Cancel()
	r.q.Flush()
	r.expect(frame)
}

func TestFrameOverBuffers(t *testing.T) {
	for _, tc := range []struct {
		name      string
		mergeable bool
		sizes     []int // of a buffer's descriptors
		hdr, ask  int
		room      int
		buffers   uint16
	}{
		{"one buffer", true, []int{1526}, 54, 1000, 1000, 1},
		{"three buffers", true, []int{1526}, 54, 4000, 4000, 3},
		{"header over a border", true, []int{20}, 54, 50, 50, 6},
		{"header as its own descriptor", true, []int{12, 1514}, 54, 1460, 1460, 1},
		{"one byte descriptors in front", true, []int{1, 1, 1, 1, 1500}, 54, 1000, 1000, 1},
		{"ring ends", true, []int{100}, 54, 1 << 20, 8*100 - 66, 8},
		{"not mergeable", false, []int{1526}, 54, 4000, 1526 - 66, 1},
		{"not mergeable, large", false, []int{12, 65550}, 54, 60000, 60000, 1},
		{"not mergeable, room for a byte", false, []int{67}, 54, 1460, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 8, true, tc.mergeable)
			r.giveN(8, tc.sizes...)
			room := r.q.Begin(tc.hdr, tc.ask)
			if room != tc.room || iov.Len(r.q.Payload()) != room {
				t.Fatalf("room %d, payload of %d, want %d", room, iov.Len(r.q.Payload()), tc.room)
			}
			f := numbered(7, tc.hdr+room)
			iov.CopyIn(r.q.Payload(), 0, f[tc.hdr:])
			v := header.Vnet{Flags: 1, GSOType: 4, HdrLen: 54, GSOSize: 1400, CsumStart: 34, CsumOffset: 16}
			r.q.End(room, v, f[:tc.hdr])
			r.q.Flush()
			got := r.take()
			if len(got) != 1 || !bytes.Equal(got[0].frame, f) {
				t.Fatal("frame is not what was made")
			}
			v.NumBuffers = tc.buffers
			if got[0].vnet != v {
				t.Errorf("vnet header %+v, want %+v", got[0].vnet, v)
			}
		})
	}
}

func TestSeveralOpenFrames(t *testing.T) {
	r := newRig(t, 64, true, true)
	r.giveN(64, 600)
	const hdr = 54
	frames := [][]byte{numbered(1, hdr+1000), numbered(2, hdr+1000), numbered(3, hdr+1000)}
	for range frames {
		if room := r.q.Begin(hdr, 1000); room != 1000 {
			t.Fatalf("room %d", room)
		}
	}
	off := 0
	for _, f := range frames {
		off += iov.CopyIn(r.q.Payload(), off, f[hdr:])
	}
	for i, f := range frames {
		if n := iov.CopyOut(make([]byte, 1), r.q.FramePayload(), 0); n != 1 {
			t.Fatal("no payload")
		}
		var first [8]byte
		iov.CopyOut(first[:], r.q.FramePayload(), 0)
		if !bytes.Equal(first[:], f[hdr:hdr+8]) {
			t.Fatalf("FramePayload is not that of frame %d", i)
		}
		r.q.End(1000, header.Vnet{}, f[:hdr])
	}
	r.q.Flush()
	r.expect(frames...)
	if n := r.dev.Outstanding(); n != 0 {
		t.Errorf("%d buffers held", n)
	}
}

// A frame that is ended with less than its room cancels the ones behind it,
// whether or not it has buffers to spare.
func TestShortEndCancelsTheRest(t *testing.T) {
	for _, short := range []int{1, 500, 999} {
		r := newRig(t, 16, true, true)
		r.giveN(16, 600)
		for range 3 {
			r.q.Begin(54, 1000)
		}
		f := numbered(9, 54+short)
		iov.CopyIn(r.q.Payload(), 0, f[54:])
		r.q.End(short, header.Vnet{}, f[:54])
		if n := r.dev.Outstanding(); n != 0 {
			t.Fatalf("short by %d: %d buffers held", 1000-short, n)
		}
		if n := len(r.q.Payload()); n != 0 {
			t.Fatalf("short by %d: payload of %d vectors is still open", 1000-short, n)
		}
		g := r.payloadFrame(10, 54, 700)
		r.q.Flush()
		r.expect(f, g)
	}
}

func TestCancelUndoesExactly(t *testing.T) {
	r := newRig(t, 16, true, true)
	r.giveN(16, 700)
	before := r.dev.Pending()
	a := r.payloadFrame(1, 54, 600)
	for range 3 {
		r.q.Begin(54, 2000)
	}
	r.q.Cancel()
	if got := r.dev.Pending(); got != before-1 || r.dev.Outstanding() != 0 {
		t.Fatalf("%d buffers left of %d, %d held", got, before, r.dev.Outstanding())
	}
	b := r.payloadFrame(2, 54, 3000)
	r.q.Flush()
	r.expect(a, b)
}

func TestFlagsWaitInOrderWhileTheRingIsEmpty(t *testing.T) {
	for _, mergeable := range []bool{true, false} {
		r := newRig(t, 16, true, mergeable)
		r.giveN(1, 1526)
		a := r.payloadFrame(1, 54, 100)
		b, c := numbered(2, 54), numbered(3, 60)
		r.q.Push(header.Vnet{}, b)
		r.q.Push(header.Vnet{}, c)
		if !r.q.Starved() {
			t.Fatal("not starved")
		}
		r.q.Flush()
		r.expect(a)
		r.giveN(2, 1526)
		if room := r.q.Begin(54, 100); room != 0 {
			t.Fatal("payload overtakes flags that wait")
		}
		if !r.q.Refill() || r.q.Starved() {
			t.Fatal("not refilled")
		}
		if f := r.payloadFrame(4, 54, 100); f != nil {
			t.Fatal("a buffer too many")
		}
		r.q.Flush()
		r.expect(b, c)
	}
}

func TestWaitingFramesAreBounded(t *testing.T) {
	r := newRig(t, 256, true, true)
	var sent [][]byte
	for i := uint32(0); ; i++ {
		f := numbered(i, 54)
		if !r.q.Push(header.Vnet{}, f) {
			break
		}
		sent = append(sent, f)
	}
	if len(sent) < 700 || len(sent) > waitingBytes/54 {
		t.Fatalf("%d frames wait", len(sent))
	}
	if r.q.Counters.Dropped != 1 {
		t.Errorf("%d dropped, want 1", r.q.Counters.Dropped)
	}
	var got []gotFrame
	for len(got) < len(sent) {
		for range 100 {
			r.give(1526)
		}
		r.q.Refill()
		r.q.Flush()
		n := r.take()
		if len(n) == 0 {
			t.Fatalf("%d of %d frames came", len(got), len(sent))
		}
		got = append(got, n...)
	}
	for i, g := range got {
		if !bytes.Equal(g.frame, sent[i]) {
			t.Fatalf("frame %d differs", i)
		}
	}
}

// Where frames cannot span buffers, a driver that posts buffers too small for
// anything gets them back, and those behind them are used.
func TestBuffersTooSmallForAnything(t *testing.T) {
	r := newRig(t, 32, true, false)
	r.giveN(3, 20)
	r.giveN(1, 1526)
	r.giveN(2, 66)
	r.giveN(2, 1526)
	r.giveN(1, 65)
	flag := numbered(1, 54)
	if !r.q.Push(header.Vnet{}, flag) {
		t.Fatal("Push failed")
	}
	var rooms []int
	for range 3 {
		rooms = append(rooms, r.q.Begin(54, 1000))
	}
	// The frames open before the small buffer can be cancelled.
	r.q.Cancel()
	f := r.payloadFrame(2, 54, 1000)
	g := r.payloadFrame(3, 54, 1000)
	if r.payloadFrame(4, 54, 10) != nil {
		t.Fatal("frame in a buffer that is too small")
	}
	r.q.Flush()
	r.expect(flag, f, g)
	if rooms[0] != 1000 || rooms[2] != 0 {
		t.Errorf("rooms %v", rooms)
	}
	if n := r.q.Counters.TooSmall; n != 6 {
		t.Errorf("%d buffers too small, want 6", n)
	}
}

// A small buffer between good ones must not make Cancel reach over buffers that
// were returned already.
func TestSmallBufferBehindOpenFrames(t *testing.T) {
	r := newRig(t, 8, true, false)
	r.giveN(2, 1526)
	r.giveN(1, 10)
	r.giveN(2, 1526)
	for range 2 {
		if r.q.Begin(54, 1000) != 1000 {
			t.Fatal("no room")
		}
	}
	if r.q.Begin(54, 1000) != 0 {
		t.Fatal("room in a buffer of 10 bytes")
	}
	r.q.Cancel()
	var want [][]byte
	for i := range uint32(4) {
		want = append(want, r.payloadFrame(i, 54, 1000))
	}
	r.q.Flush()
	r.expect(want...)
}

// A frame larger than any buffer is dropped, and costs no buffer.
func TestFrameLargerThanBuffers(t *testing.T) {
	r := newRig(t, 8, true, false)
	r.giveN(8, 1526)
	if r.q.Push(header.Vnet{}, numbered(1, 2000)) {
		t.Fatal("Push of 2000 bytes into buffers of 1526")
	}
	f := numbered(2, 1514)
	r.q.Push(header.Vnet{}, f)
	r.q.Flush()
	r.expect(f)
	if c := r.q.Counters; c.Dropped != 1 || c.TooSmall != 0 {
		t.Errorf("counters %+v", c)
	}
}

func TestWithoutRing(t *testing.T) {
	q := New()
	q.SetEnabled(true)
	if q.Push(header.Vnet{}, make([]byte, 54)) || q.Begin(54, 100) != 0 || q.Attached() || q.Refill() || q.Arm() {
		t.Error("a queue without a ring takes frames")
	}
	q.Cancel()
	q.Flush()
	q.Detach()

	r := newRig(t, 8, true, true)
	r.giveN(4, 1526)
	r.q.SetEnabled(false)
	if r.q.Push(header.Vnet{}, make([]byte, 54)) || r.q.Begin(54, 100) != 0 {
		t.Error("a disabled queue takes frames")
	}
	r.q.Flush()
	r.expect()
	// What waits for the ring must still be told when it is enabled.
	r.q.Refill()
	r.q.SetEnabled(true)
	if !r.q.Starved() || !r.q.Refill() {
		t.Error("not starved: whoever is parked would never be told of the ring")
	}
	f := r.payloadFrame(1, 54, 100)
	r.q.Flush()
	r.expect(f)
}

func TestDetachFlushesAndDropsWhatWaits(t *testing.T) {
	r := newRig(t, 8, true, true)
	r.giveN(1, 1526)
	f := r.payloadFrame(1, 54, 100)
	r.q.Push(header.Vnet{}, numbered(2, 54))
	r.q.Begin(54, 10)
	r.q.Detach()
	r.expect(f)
	if r.dev.Outstanding() != 0 || r.q.HasRing() || r.q.Counters.Dropped != 1 {
		t.Errorf("held %d, counters %+v", r.dev.Outstanding(), r.q.Counters)
	}
	// The next ring has fewer buffers than were left on the last one.
	s := newRig(t, 8, true, true)
	s.giveN(1, 1526)
	r.q.Attach(s.dev, s, Format{Mergeable: true})
	if !r.q.Starved() || !r.q.Arm() {
		t.Error("buffers that were there first are not seen")
	}
}

func TestArmTellsOfBuffersThatCameMeanwhile(t *testing.T) {
	for _, eventIdx := range []bool{true, false} {
		r := newRig(t, 16, eventIdx, true)
		r.giveN(2, 30) // too few for a frame
		if r.q.Push(header.Vnet{}, numbered(1, 100)); !r.q.Starved() {
			t.Fatal("not starved")
		}
		if r.q.Arm() {
			t.Error("Arm reports the buffers that were too few")
		}
		kick, _ := r.give(200)
		if !kick {
			t.Error("no kick for a new buffer")
		}
		if !r.q.Arm() || !r.q.Refill() {
			t.Error("new buffer was not seen")
		}
		r.q.Flush()
		r.expect(numbered(1, 100))
	}
}

func TestBrokenRing(t *testing.T) {
	for _, f := range virtqtest.Faults() {
		if f.NoIndirect {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			r := newRig(t, 8, true, true)
			if err := f.Apply(r.drv, true); err != nil {
				t.Fatal(err)
			}
			for i := range uint32(20) {
				r.q.Push(header.Vnet{}, numbered(i, 54))
				if r.q.Begin(54, 1<<20) > 0 {
					r.q.End(1, header.Vnet{}, make([]byte, 54))
				}
				r.q.Cancel()
				r.q.Flush()
				r.q.Arm()
				r.q.Refill()
			}
			if err := r.q.Err(); !errors.Is(err, virtqueue.ErrBroken) {
				t.Errorf("error %v", err)
			}
			r.q.Detach()
			if r.q.Err() != nil {
				t.Error("error outlives the ring")
			}
		})
	}
}

func TestNoAllocations(t *testing.T) {
	r := newRig(t, 256, true, true)
	r.giveN(256, 600)
	hdr := make([]byte, 54)
	flag := make([]byte, 54)
	if n := testing.AllocsPerRun(20, func() {
		for range 4 {
			r.q.Begin(54, 1000)
		}
		for range 3 {
			r.q.End(1000, header.Vnet{}, hdr)
		}
		r.q.End(10, header.Vnet{}, hdr)
		r.q.Cancel()
		r.q.Push(header.Vnet{}, flag)
		r.q.Flush()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	empty := newRig(t, 8, true, true)
	if n := testing.AllocsPerRun(20, func() {
		empty.q.Push(header.Vnet{}, flag)
		empty.q.Refill()
		empty.q.Arm()
	}); n != 0 {
		t.Errorf("%v allocations while the ring is empty, want 0", n)
	}
}

// lateDriver adds a buffer right after the device found too few of them, as a
// driver on another processor may.
type lateDriver struct {
	Ring
	add func()
}

func (l *lateDriver) Take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	vecs, token, err := l.Ring.Take(dst)
	if err != nil && l.add != nil {
		l.add()
		l.add = nil
	}
	return vecs, token, err
}

// TestBufferAddedWhileStarving: a buffer that comes between the look that found
// too few and the request for a kick is not slept over.
func TestBufferAddedWhileStarving(t *testing.T) {
	for _, eventIdx := range []bool{false, true} {
		for name, starve := range map[string]func(q *Queue){
			"push":  func(q *Queue) { q.Push(header.Vnet{}, make([]byte, 1500)) },
			"begin": func(q *Queue) { q.Begin(54, 1400) },
			"more": func(q *Queue) {
				if q.Begin(54, 1400) > 0 {
					q.Cancel()
				}
				q.WaitForMore()
			},
		} {
			for _, had := range []int{0, 1} {
				r := newRig(t, 16, eventIdx, true)
				for range had {
					r.give(40) // holds not even the headers
				}
				r.q.Attach(&lateDriver{r.dev, func() { r.give(2048) }}, r, Format{Mergeable: true})
				r.q.Refill()
				starve(r.q)
				if !r.q.Starved() || !r.q.Arm() {
					t.Errorf("%s, event index %v, %d buffers before: the buffer was overlooked", name, eventIdx, had)
				}
			}
		}
	}
}
