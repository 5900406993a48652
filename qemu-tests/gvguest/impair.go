package gvguest

import (
	"math/rand/v2"
	"time"
)

// Impairment is how badly a direction treats its frames. Each value is a
// probability, 0 to 1. The zero value is a good cable.
type Impairment struct {
	Loss, Duplicate, Reorder float64
}

const (
	// A reordered frame is overtaken by up to overtake frames, but waits no
	// longer than holdTime for them.
	overtake = 5
	holdTime = 3 * time.Millisecond
)

// held is a frame that others overtake.
type held struct {
	frame []byte
	count int // frames that may pass yet
	until time.Time
}

// shim impairs one direction. It belongs to one goroutine.
type shim struct {
	imp  Impairment
	rng  *rand.Rand
	out  func(frame []byte)
	held []held
}

// put takes a frame, which becomes the shim's, and lets out what is due.
func (s *shim) put(frame []byte) {
	if s.imp == (Impairment{}) && len(s.held) == 0 {
		s.out(frame)
		return
	}
	switch p := s.rng.Float64(); {
	case p < s.imp.Loss:
		return
	case p < s.imp.Loss+s.imp.Reorder:
		s.held = append(s.held, held{frame, 1 + s.rng.IntN(overtake), time.Now().Add(holdTime)})
		return
	case p < s.imp.Loss+s.imp.Reorder+s.imp.Duplicate:
		s.out(frame)
	}
	s.out(frame)
	s.release(func(h *held) bool { h.count--; return h.count <= 0 })
}

// expire lets frames out that have waited long enough, and says how long the
// next one will wait; -1: there is none.
func (s *shim) expire() time.Duration {
	if len(s.held) == 0 {
		return -1
	}
	now := time.Now()
	s.release(func(h *held) bool { return !now.Before(h.until) })
	wait := time.Duration(-1)
	for _, h := range s.held {
		if d := h.until.Sub(now); wait < 0 || d < wait {
			wait = d
		}
	}
	return wait
}

func (s *shim) release(due func(*held) bool) {
	keep := s.held[:0]
	var ready [][]byte
	for _, h := range s.held {
		if due(&h) {
			ready = append(ready, h.frame)
		} else {
			keep = append(keep, h)
		}
	}
	clear(s.held[len(keep):])
	s.held = keep
	for _, f := range ready {
		s.out(f)
	}
}
