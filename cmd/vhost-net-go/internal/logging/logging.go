// Package logging sets up the daemon's log: hclog on standard error or on a
// file of limited size, and a brake for messages that a guest can provoke.
package logging

import (
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

// Log is the daemon's log. Its methods are safe for concurrent use.
type Log struct {
	hclog.Logger
	out  *output
	file *File
}

// Open starts a log at the given level. With a path it goes to that file,
// which holds at most limitBytes; otherwise to stderr. What is wrong with the file
// later, as a full disk, is told on stderr.
func Open(stderr io.Writer, path string, limitBytes int64, level options.Level) (*Log, error) {
	l := &Log{out: &output{w: stderr}}
	if path != "" {
		f, err := OpenFile(path, limitBytes)
		if err != nil {
			return nil, err
		}
		l.out.file, l.file = f, f
	}
	l.Logger = hclog.New(&hclog.LoggerOptions{
		Name:   "vhost-net-go",
		Level:  hclogLevel(level),
		Output: l.out,
	})
	return l, nil
}

// Detach gives up standard error: what would go there goes to the system's log.
func (l *Log) Detach() { l.out.detach(SystemLog) }

// Screen writes text as it is, for the start-up screen, whose lines are there
// to be copied. It is left out when only warnings are wanted.
func (l *Log) Screen(text string) {
	if l.IsInfo() {
		_, _ = io.WriteString(l.out, text) // a log that cannot be written is no reason to stop
	}
}

// Close closes the log file, if there is one.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

func hclogLevel(level options.Level) hclog.Level {
	switch level {
	case options.Quiet:
		return hclog.Warn
	case options.Debug:
		return hclog.Debug
	case options.Trace:
		return hclog.Trace
	}
	return hclog.Info
}
