package logging

import (
	"bytes"
	"io"
	"sync"

	"github.com/hashicorp/go-hclog"
)

// output is where messages go: a writer, or the system's log. Safe for
// concurrent use.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	sys *systemLog // if not nil, in place of w
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
	o.sys.log(level, withoutHeading(p))
	return len(p), nil
}

// detach turns to the system's log at path; without a socket for it, messages
// are lost.
func (o *output) detach(path string) {
	sys, err := openSystemLog(path)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
	if err == nil {
		o.sys = sys
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
