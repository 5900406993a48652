package vhostuser

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Pauses between attempts to connect: short enough that a frontend that comes
// back is met within a second, long enough to cost nothing.
const (
	dialPauseMin = 50 * time.Millisecond
	dialPauseMax = time.Second
)

// Dialer connects to a frontend that listens, as QEMU does with server=on, and
// again whenever the frontend is gone.
type Dialer struct {
	path  string
	log   *limitedLog
	most  time.Duration // between two attempts
	pause time.Duration // before the next attempt
	last  time.Time     // when the last connection was made
}

// NewDialer returns a Dialer for the socket at path. The frontend need not
// listen yet. Attempts are at most maxPause apart; 0 means a second. log says
// that it is waiting and why, again whenever the reason changes; nil: no log.
func NewDialer(path string, maxPause time.Duration, log hclog.Logger) (*Dialer, error) {
	if path == "" || path[0] == '@' || len(path) > pathMax {
		return nil, fmt.Errorf("connect to %q: not a path of 1 to %d bytes", path, pathMax)
	}
	if log == nil {
		log = hclog.NewNullLogger()
	}
	if maxPause <= 0 {
		maxPause = dialPauseMax
	}
	return &Dialer{path: path, most: maxPause, log: newLimitedLog(log)}, nil
}

// Next connects, and tries again until it succeeds or ctx is done. One goroutine
// may use it at a time.
func (d *Dialer) Next(ctx context.Context) (*net.UnixConn, error) {
	// A frontend that takes connections and drops them must not make us spin.
	if since := time.Since(d.last); since > d.most {
		d.pause = 0
	}
	for logged := ""; ; {
		if err := sleep(ctx, d.pause); err != nil {
			return nil, err
		}
		d.pause = min(max(2*d.pause, dialPauseMin), d.most)
		var nd net.Dialer
		c, err := nd.DialContext(ctx, "unix", d.path)
		if err == nil {
			d.last = time.Now()
			return c.(*net.UnixConn), nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if why := bareError(err); why.Error() != logged {
			logged = why.Error()
			d.log.info("waiting for the frontend to listen", "socket", d.path, "error", why)
		}
	}
}

// Close does nothing: a connection belongs to whom Next gave it.
func (d *Dialer) Close() error { return nil }

// sleep waits for t, or returns an error when ctx is done first.
func sleep(ctx context.Context, t time.Duration) error {
	if t == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
