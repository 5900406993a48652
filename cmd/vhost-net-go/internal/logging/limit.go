package logging

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// Bounds for messages that a guest or a frontend can provoke.
const (
	guestBurst    = 5
	guestInterval = time.Second
)

// Limited passes on at most a few messages per second and counts the rest; the
// next one that passes says how many were suppressed. It is for messages that
// the other side can provoke at will. Safe for concurrent use; it never waits.
type Limited struct {
	log        hclog.Logger
	limiter    *rate.Limiter
	suppressed atomic.Uint64
}

// Limit returns a Limited with the bounds for guest-triggered messages: bursts
// of 5, one a second on average.
func Limit(log hclog.Logger) *Limited {
	return &Limited{log: log, limiter: rate.NewLimiter(rate.Every(guestInterval), guestBurst)}
}

// Warn logs like hclog.Logger's Warn.
func (l *Limited) Warn(msg string, args ...any) { l.emit(hclog.Warn, msg, args) }

// Error logs like hclog.Logger's Error.
func (l *Limited) Error(msg string, args ...any) { l.emit(hclog.Error, msg, args) }

// Debug logs like hclog.Logger's Debug; below that level it costs nothing of
// the allowance.
func (l *Limited) Debug(msg string, args ...any) {
	if l.log.IsDebug() {
		l.emit(hclog.Debug, msg, args)
	}
}

// Flush reports what has been suppressed since the last message.
func (l *Limited) Flush() {
	if n := l.suppressed.Swap(0); n > 0 {
		l.log.Warn("similar messages suppressed", "count", n)
	}
}

func (l *Limited) emit(level hclog.Level, msg string, args []any) {
	if !l.limiter.Allow() {
		l.suppressed.Add(1)
		return
	}
	if n := l.suppressed.Swap(0); n > 0 {
		args = append(args[:len(args):len(args)], "suppressed", n)
	}
	l.log.Log(level, msg, args...)
}
