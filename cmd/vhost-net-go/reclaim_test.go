package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestReclaim: memory is given back soon after it was let go, however often that
// is said, not again before some time has passed, and then once more.
func TestReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		r, freed := newReclaimer(), atomic.Int64{}
		go r.run(ctx, func() { freed.Add(1) }, time.Minute)
		for _, step := range []struct {
			wanted int
			after  time.Duration
			freed  int64
		}{
			{0, time.Hour, 0},
			{1, time.Second, 1},
			{1000, 58 * time.Second, 1},
			{1000, 2 * time.Second, 2},
			{0, time.Hour, 2},
			{1, time.Second, 3},
		} {
			for range step.wanted {
				r.wanted()
			}
			time.Sleep(step.after)
			synctest.Wait()
			if n := freed.Load(); n != step.freed {
				t.Errorf("freed %d times after %+v", n, step)
			}
		}
		cancel()
	})
}
