// Package timerwheel keeps the deadlines of many flows with millisecond
// resolution: one deadline for each id, O(1) to set, move and cancel, no
// allocation, 16 bytes for each id.
//
// It is the hierarchical wheel of Varghese and Lauck (1987), scheme 7, with 64
// slots a level. A timer lies on the level of the highest six-bit digit in
// which its deadline differs from the present, so that everything on a level is
// due before anything on the next one, and moves to lower levels as its time
// comes near.
package timerwheel

import "math/bits"

const (
	digitBits = 6
	slots     = 1 << digitBits
	levels    = 7
	// maxMs is the largest time that the wheel tells apart: 139 years.
	maxMs = 1<<(digitBits*levels) - 1
)

// timer is the node of one id in a doubly linked list. References are ids plus
// 1; 0 is none. prev is a reference, or headBit and the list's number for the
// first of a list, or 0 if the timer is not set.
type timer struct {
	next, prev uint32
	deadlineMs int64
}

const headBit = 1 << 31

// Wheel holds timers for ids 0, 1, 2, …, which should be dense: memory follows
// the largest. It belongs to one goroutine. Times are milliseconds of any clock
// that does not go back and starts at 0 or later.
type Wheel struct {
	timers   []timer
	heads    [levels * slots]uint32 // first timer of each list
	occupied [levels]uint64         // bit s: list s of the level is not empty
	nowMs    int64                  // everything due up to here has fired
	count    int
}

// New returns an empty wheel at the time nowMs.
func New(nowMs int64) *Wheel { return &Wheel{nowMs: clamp(nowMs)} }

// Len returns the number of timers that are set.
func (w *Wheel) Len() int { return w.count }

// Set makes the timer of id fire at deadlineMs, instead of when it was set for
// before. One whose time has come fires with the next millisecond, so that a
// timer set again by its own handler cannot hold up Advance. id must be below
// 1<<31 - 1.
func (w *Wheel) Set(id uint32, deadlineMs int64) {
	if int(id) >= len(w.timers) {
		w.grow(int(id) + 1)
	} else if w.timers[id].prev != 0 {
		w.unlink(id)
	}
	w.timers[id].deadlineMs = clamp(max(deadlineMs, w.nowMs+1))
	w.link(id)
}

// Cancel takes the timer of id out, if it is set.
func (w *Wheel) Cancel(id uint32) {
	if w.IsSet(id) {
		w.unlink(id)
	}
}

// IsSet reports whether the timer of id is set.
func (w *Wheel) IsSet(id uint32) bool {
	return int(id) < len(w.timers) && w.timers[id].prev != 0
}

// Deadline returns when the timer of id fires, or -1 if it is not set.
func (w *Wheel) Deadline(id uint32) int64 {
	if !w.IsSet(id) {
		return -1
	}
	return w.timers[id].deadlineMs
}

// Advance moves the time to nowMs and calls fire for each timer whose deadline
// has come, in the order of the deadlines. The timer is no longer set then;
// fire may set and cancel any. The clock never goes back.
func (w *Wheel) Advance(nowMs int64, fire func(id uint32)) {
	nowMs = clamp(nowMs)
	for {
		level, slot, startMs := w.first()
		if level < 0 || startMs > nowMs {
			break
		}
		w.nowMs = max(w.nowMs, startMs)
		head := &w.heads[level*slots+slot]
		for *head != 0 {
			id := *head - 1
			w.unlink(id)
			if level > 0 {
				w.link(id) // to a lower level, now that it is nearer
				continue
			}
			fire(id)
		}
	}
	w.nowMs = max(w.nowMs, nowMs)
}

// exactWithin is how many timers Next looks at for the exact deadline.
const exactWithin = 16

// Next returns when Advance has something to do, or -1 if no timer is set.
// That is the earliest deadline, or, if many timers are due far away at about
// the same time, some time before it.
func (w *Wheel) Next() int64 {
	level, slot, startMs := w.first()
	if level < 0 {
		return -1
	}
	if level == 0 {
		return startMs
	}
	ref, earliest := w.heads[level*slots+slot], int64(maxMs)
	for range exactWithin {
		if ref == 0 {
			return earliest
		}
		t := &w.timers[ref-1]
		earliest = min(earliest, t.deadlineMs)
		ref = t.next
	}
	return startMs
}

// first returns the earliest list that is not empty and where it starts in
// time. Lists of a level do not wrap around: their timers agree with the
// present in all higher digits.
func (w *Wheel) first() (level, slot int, startMs int64) {
	for level = range levels {
		if set := w.occupied[level]; set != 0 {
			slot = bits.TrailingZeros64(set)
			shift := level * digitBits
			above := w.nowMs >> (shift + digitBits) << (shift + digitBits)
			return level, slot, above | int64(slot)<<shift
		}
	}
	return -1, 0, 0
}

// list returns the list for a deadline.
func (w *Wheel) list(deadlineMs int64) int {
	level := max(bits.Len64(uint64(deadlineMs^w.nowMs))-1, 0) / digitBits
	return level*slots + int(deadlineMs>>(level*digitBits))&(slots-1)
}

func (w *Wheel) link(id uint32) {
	t := &w.timers[id]
	n := w.list(t.deadlineMs)
	t.next, t.prev = w.heads[n], headBit|uint32(n)
	if t.next != 0 {
		w.timers[t.next-1].prev = id + 1
	}
	w.heads[n] = id + 1
	w.occupied[n/slots] |= 1 << (n % slots)
	w.count++
}

func (w *Wheel) unlink(id uint32) {
	t := &w.timers[id]
	if t.next != 0 {
		w.timers[t.next-1].prev = t.prev
	}
	if t.prev&headBit == 0 {
		w.timers[t.prev-1].next = t.next
	} else {
		n := t.prev &^ headBit
		w.heads[n] = t.next
		if t.next == 0 {
			w.occupied[n/slots] &^= 1 << (n % slots)
		}
	}
	t.next, t.prev = 0, 0
	w.count--
}

// grow makes room for n timers, with some to spare.
func (w *Wheel) grow(n int) {
	if n > cap(w.timers) {
		bigger := make([]timer, len(w.timers), max(n, 2*cap(w.timers), slots))
		copy(bigger, w.timers)
		w.timers = bigger
	}
	w.timers = w.timers[:n]
}

func clamp(ms int64) int64 { return min(max(ms, 0), maxMs) }
