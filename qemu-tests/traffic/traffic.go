// Package traffic makes random traffic between two hosts that check every byte of it: TCP streams of random sizes with pauses,
// half-closes and aborts, and datagrams that are echoed. Both ends know from a stream's first bytes what has to come.
package traffic

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// Port is where servers of this traffic are found.
	Port = 9100
	// StallLimit is how long nothing may come from a side that is willing to send.
	StallLimit = 5 * time.Second
	// HangLimit bounds what may take long: that a side has taken all that is under way while others are served too.
	HangLimit = 60 * time.Second
)

// Traffic is one end of the traffic. Its methods may be called from several goroutines.
type Traffic struct {
	// Report is told of each thing that went wrong; required, and called from any goroutine.
	Report func(error)
	// Slow, if not nil, is told of each wait of more than slowWait that ended well.
	Slow func(string)

	Streams, Aborts, Bytes, Datagrams, DatagramsLost atomic.Int64
	longestWait                                      atomic.Int64
}

// LongestWait is the longest time that a willing side was waited for.
func (t *Traffic) LongestWait() time.Duration { return time.Duration(t.longestWait.Load()) }

func (t *Traffic) waited(d time.Duration) {
	for {
		old := t.longestWait.Load()
		if int64(d) <= old || t.longestWait.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

func (t *Traffic) String() string {
	return fmt.Sprintf("%d streams, %d aborted ones, %d MiB, %d datagrams (%d lost), longest wait %d ms", t.Streams.Load(), t.Aborts.Load(),
		t.Bytes.Load()>>20, t.Datagrams.Load(), t.DatagramsLost.Load(), t.LongestWait().Milliseconds())
}

// slowWait is far more than any wait should be.
const slowWait = time.Second

// errStall is what a stream ends with that rests for too long.
var errStall = errors.New("stall")
