package vhostuser

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// A frontend or a guest can cause log lines at will, so they are limited: a
// burst for the few lines of an ordinary start, then one in a few seconds.
const (
	logBurst    = 20
	logInterval = 3 * time.Second
)

// limitedLog drops lines above a rate and counts them.
type limitedLog struct {
	hclog.Logger
	mu         sync.Mutex
	limit      *rate.Limiter
	suppressed int
}

func newLimitedLog(l hclog.Logger) *limitedLog {
	return &limitedLog{Logger: l, limit: rate.NewLimiter(rate.Every(logInterval), logBurst)}
}

func (l *limitedLog) debug(msg string, args ...any) {
	if l.IsDebug() {
		l.line(hclog.Debug, msg, args)
	}
}
func (l *limitedLog) info(msg string, args ...any) { l.line(hclog.Info, msg, args) }
func (l *limitedLog) warn(msg string, args ...any) { l.line(hclog.Warn, msg, args) }

func (l *limitedLog) line(level hclog.Level, msg string, args []any) {
	l.mu.Lock()
	if !l.limit.Allow() {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	n := l.suppressed
	l.suppressed = 0
	l.mu.Unlock()
	if n > 0 {
		args = append(args, "suppressed_lines", n)
	}
	l.Log(level, msg, args...)
}
