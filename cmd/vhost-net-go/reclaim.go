package main

import (
	"context"
	"time"
)

// reclaimRest is how long memory is not given back again after it was.
const reclaimRest = 30 * time.Second

// reclaimer gives memory back to the system when workers have let go of much of
// it. An idle process would do so only after minutes, and a worker has no time to
// collect garbage.
type reclaimer chan struct{}

func newReclaimer() reclaimer { return make(reclaimer, 1) }

// wanted asks for it; it never blocks.
func (r reclaimer) wanted() {
	select {
	case r <- struct{}{}:
	default: // asked for already
	}
}

// run calls free when that is wanted, and not more often than each rest, until
// ctx is done.
func (r reclaimer) run(ctx context.Context, free func(), rest time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r:
			free()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
	}
}
