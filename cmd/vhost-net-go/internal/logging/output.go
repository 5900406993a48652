package logging

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// output is where messages go: a writer, or the system's log. Safe for
// concurrent use.
type output struct {
	mu  sync.Mutex
	w   io.Writer
	sys *systemLog // if not nil, in place of w

	// file, if not nil, is in place of both, which then get what concerns the
	// file itself; lost counts the messages that it did not take.
	file   *File
	lost   int
	warned bool
}

// Write writes lines that have no level.
func (o *output) Write(p []byte) (int, error) { return o.LevelWrite(hclog.Info, p) }

// LevelWrite implements hclog.LevelWriter.
func (o *output) LevelWrite(level hclog.Level, p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		o.toFile(p)
		return len(p), nil
	}
	if o.sys == nil {
		return o.w.Write(p)
	}
	o.sys.log(level, withoutHeading(p))
	return len(p), nil
}

// toFile writes a message to the file, and before it how many were lost. A full
// disk is told of elsewhere, once: it may be full again after each message.
func (o *output) toFile(p []byte) {
	var err error
	if o.lost > 0 {
		_, err = fmt.Fprintf(o.file, "%s [WARN]  vhost-net-go: messages were lost, the file could not be written: count=%d\n",
			time.Now().Format(hclog.TimeFormat), o.lost)
	}
	if err == nil {
		o.lost = 0
		_, err = o.file.Write(p)
	}
	if err == nil {
		return
	}
	o.lost++
	if o.warned {
		return
	}
	o.warned = true
	text := fmt.Sprintf("vhost-net-go: --log-file: %v; messages are lost until it can be written\n", err)
	if o.sys != nil {
		o.sys.log(hclog.Warn, []byte(text))
	} else {
		_, _ = io.WriteString(o.w, text)
	}
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
