package logging

import (
	"bytes"
	"io"
	"log/syslog"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// output is where messages go: a writer, or the system's log. Safe for
// concurrent use.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	sys *syslog.Writer // if not nil, in place of w
}

// Write writes lines that have no level.
func (o *output) Write(p []byte) (int, error) { return o.LevelWrite(hclog.Info, p) }

// LevelWrite implements hclog.LevelWriter.
func (o *output) LevelWrite(level hclog.Level, p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sys == nil {
		return o.w.Write(p)
	}
	// A log that cannot be written is no reason to stop.
	_ = write(o.sys, level, string(withoutHeading(p)))
	return len(p), nil
}

// detach turns to the system's log; where there is none, messages are lost.
func (o *output) detach() {
	sys, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_INFO, "vhost-net-go")
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w, o.sys = io.Discard, sys
	if err != nil {
		o.sys = nil
	}
}

// leveled is what a system's log can do.
type leveled interface {
	Err(string) error
	Warning(string) error
	Info(string) error
	Debug(string) error
}

func write(w leveled, level hclog.Level, text string) error {
	switch level {
	case hclog.Error:
		return w.Err(text)
	case hclog.Warn:
		return w.Warning(text)
	case hclog.Debug, hclog.Trace:
		return w.Debug(text)
	default:
		return w.Info(text)
	}
}

// withoutHeading takes off time, level and name, which the system's log has by
// itself.
func withoutHeading(line []byte) []byte {
	if _, rest, ok := bytes.Cut(line, []byte(" vhost-net-go")); ok {
		if _, text, ok := bytes.Cut(rest, []byte(": ")); ok {
			return text
		}
	}
	return line
}
