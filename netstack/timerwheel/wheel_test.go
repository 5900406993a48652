package timerwheel

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// model is the wheel as anybody would write it without thinking of speed.
type model struct {
	now int64
	due map[uint32]int64
}

func (m *model) set(id uint32, at int64) { m.due[id] = max(at, m.now+1) }

func (m *model) next() int64 {
	earliest := int64(-1)
	for _, at := range m.due {
		if earliest < 0 || at < earliest {
			earliest = at
		}
	}
	return earliest
}

// both runs the same operations on a wheel and its model.
type both struct {
	t *testing.T
	w *Wheel
	m *model
}

func newBoth(t *testing.T, now int64) *both {
	return &both{t, New(now), &model{now, map[uint32]int64{}}}
}

func (b *both) set(id uint32, at int64) {
	b.w.Set(id, at)
	b.m.set(id, at)
}

func (b *both) cancel(id uint32) {
	b.w.Cancel(id)
	delete(b.m.due, id)
}

// advance moves the time and checks that just the due timers fire, in order.
func (b *both) advance(now int64) {
	b.t.Helper()
	last := int64(-1)
	b.w.Advance(now, func(id uint32) {
		at, set := b.m.due[id]
		if !set || at > now {
			b.t.Fatalf("timer %d fired at %d, due %d (set: %v)", id, now, at, set)
		}
		if at < last {
			b.t.Fatalf("timer due %d fired after one due %d", at, last)
		}
		last = at
		delete(b.m.due, id)
	})
	b.m.now = max(b.m.now, now)
	b.check()
}

func (b *both) check() {
	b.t.Helper()
	want := b.m.next()
	if want >= 0 && want <= b.m.now {
		b.t.Fatalf("a timer due %d did not fire until %d", want, b.m.now)
	}
	got := b.w.Next()
	if (got < 0) != (want < 0) || got > want || want >= 0 && got <= b.m.now {
		b.t.Fatalf("Next = %d, earliest deadline %d, now %d", got, want, b.m.now)
	}
	if len(b.m.due) <= exactWithin && got != want {
		b.t.Fatalf("Next = %d with few timers, want %d", got, want)
	}
	if b.w.Len() != len(b.m.due) {
		b.t.Fatalf("Len = %d, want %d", b.w.Len(), len(b.m.due))
	}
}

func TestAgainstModel(t *testing.T) {
	spans := []int64{1, 10, 64, 65, 4096, 5000, 262144, 7200_000, 1 << 33}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 9))
		b := newBoth(t, []int64{0, 1, 63, 64, 4095, 1_700_000_000_000}[seed%6])
		ids := []int{8, 300}[seed%2]
		for range 4000 {
			id := uint32(r.IntN(ids))
			span := spans[r.IntN(len(spans))]
			switch r.IntN(4) {
			case 0, 1:
				b.set(id, b.m.now+r.Int64N(span+1))
			case 2:
				b.cancel(id)
			case 3:
				b.advance(b.m.now + r.Int64N(span+1))
			}
			if at, set := b.m.due[id]; set != b.w.IsSet(id) || set && at != b.w.Deadline(id) {
				t.Fatalf("timer %d: wheel says %d, want %d, %v", id, b.w.Deadline(id), at, set)
			}
		}
		b.advance(maxMs)
	}
}

// TestWakeUps counts how often an idle owner that sleeps until Next is woken in
// vain.
func TestWakeUps(t *testing.T) {
	w, fired, woken := New(12345), 0, 0
	w.Set(0, 12345+7200_000)
	for w.Len() > 0 {
		woken++
		w.Advance(w.Next(), func(uint32) { fired++ })
	}
	if fired != 1 || woken != 1 {
		t.Errorf("%d wake-ups, %d timers fired, want 1 and 1", woken, fired)
	}
}

// TestHandlerChangesTimers lets handlers set and cancel, also themselves and
// others of the same millisecond.
func TestHandlerChangesTimers(t *testing.T) {
	const n = 6
	w := New(0)
	for id := range uint32(n) {
		w.Set(id, 100)
	}
	count := map[uint32]int{}
	var cancelled, moved, again uint32
	w.Advance(1000, func(id uint32) {
		if len(count) == 0 {
			cancelled, moved, again = (id+1)%n, (id+2)%n, id
			w.Cancel(cancelled)
			w.Set(moved, 5000)
		}
		count[id]++
		if id == again && count[id] < 4 {
			w.Set(id, 0) // fires again one millisecond later
		}
	})
	for id := range uint32(n) {
		want := map[uint32]int{cancelled: 0, moved: 0, again: 4}
		if _, special := want[id]; !special {
			want[id] = 1
		}
		if count[id] != want[id] {
			t.Errorf("timer %d fired %d times, want %d", id, count[id], want[id])
		}
	}
	if w.Next() != 5000 || w.Len() != 1 {
		t.Errorf("Next = %d, Len = %d", w.Next(), w.Len())
	}
}

func TestBorders(t *testing.T) {
	w := New(-5)
	if w.Next() != -1 || w.Len() != 0 {
		t.Error("new wheel is not empty")
	}
	w.Cancel(1000) // never set
	w.Set(0, -1)
	w.Set(1, 1<<62)
	if w.Next() != 1 || w.Deadline(1) != maxMs || w.Deadline(77) != -1 {
		t.Errorf("Next = %d, Deadline = %d", w.Next(), w.Deadline(1))
	}
	var fired []uint32
	w.Advance(1, func(id uint32) { fired = append(fired, id) })
	w.Advance(0, func(id uint32) { fired = append(fired, id) }) // the clock stays
	if len(fired) != 1 || fired[0] != 0 || w.Next() != maxMs {
		t.Errorf("fired %v, Next = %d", fired, w.Next())
	}
	w.Advance(1<<62, func(id uint32) { fired = append(fired, id) })
	if len(fired) != 2 || w.Len() != 0 {
		t.Errorf("fired %v", fired)
	}
}

func TestAllocatesNothing(t *testing.T) {
	w := New(0)
	w.Set(999, 1)
	now, fire := int64(0), func(uint32) {}
	if n := testing.AllocsPerRun(100, func() {
		for id := range uint32(1000) {
			w.Set(id, now+int64(id)*37)
		}
		w.Cancel(500)
		now += 20_000
		w.Advance(now, fire)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func FuzzWheel(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 100, 3, 0, 0, 0, 99, 3, 0, 0, 0, 1})
	f.Add([]byte{0, 1, 0, 16, 0, 0, 2, 0, 16, 1, 2, 1, 0, 0, 0, 3, 0, 0, 16, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		b := newBoth(t, 60)
		for ; len(script) >= 5; script = script[5:] {
			id := uint32(script[1] % 32)
			span := int64(binary.BigEndian.Uint32(script[1:]) & 0xffffff)
			switch script[0] % 4 {
			case 0, 1:
				b.set(id, b.m.now+span)
			case 2:
				b.cancel(id)
			case 3:
				b.advance(b.m.now + span)
			}
		}
		b.advance(maxMs)
	})
}

func BenchmarkSet(b *testing.B) {
	w := New(0)
	const n = 100_000
	w.Set(n, 1)
	i := uint32(0)
	for b.Loop() {
		w.Set(i%n, int64(i%7919)*100)
		i += 31
	}
}

func BenchmarkAdvance(b *testing.B) {
	w, now := New(0), int64(0)
	const n = 100_000
	fire := func(id uint32) { w.Set(id, now+1000+int64(id%5000)) }
	for id := range uint32(n) {
		w.Set(id, int64(id%6000))
	}
	for b.Loop() {
		now++
		w.Advance(now, fire)
	}
}
