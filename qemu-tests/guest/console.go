// Package guest boots guests on a vhost-user backend and reads the results that they report on their console.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Step is one line "@step NAME ok|fail DETAILS" of a guest.
type Step struct {
	Name   string
	OK     bool
	Detail string
}

// Console collects what a guest writes. It is safe for concurrent use.
type Console struct {
	mu      sync.Mutex
	changed chan struct{}
	partial string
	lines   []string
	steps   []Step
	done    bool
	ended   bool
	tee     io.Writer
}

// NewConsole returns an empty console; everything written is passed to tee too, if that is not nil.
func NewConsole(tee io.Writer) *Console {
	return &Console{changed: make(chan struct{}), tee: tee}
}

// Show passes what is written from now on to w.
func (c *Console) Show(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tee = w
}

const maxConsoleLines = 20000

// Write takes the guest's output. It never fails.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tee != nil {
		_, _ = c.tee.Write(p)
	}
	c.partial += strings.ReplaceAll(string(p), "\r", "")
	for {
		line, rest, ok := strings.Cut(c.partial, "\n")
		if !ok {
			break
		}
		c.partial = rest
		c.take(line)
	}
	c.wake()
	return len(p), nil
}

func (c *Console) take(line string) {
	if len(c.lines) < maxConsoleLines {
		c.lines = append(c.lines, line)
	}
	// The kernel may have written something in front, without a line's end.
	if i := strings.Index(line, "@step "); i >= 0 {
		if s, ok := parseStep(line[i:]); ok {
			c.steps = append(c.steps, s)
		}
	}
	if strings.HasSuffix(line, "@done") {
		c.done = true
	}
}

func parseStep(line string) (Step, bool) {
	f := strings.SplitN(line, " ", 4)
	if len(f) < 3 || f[0] != "@step" || (f[2] != "ok" && f[2] != "fail") {
		return Step{}, false
	}
	s := Step{Name: f[1], OK: f[2] == "ok"}
	if len(f) == 4 {
		s.Detail = strings.TrimSpace(f[3])
	}
	return s, true
}

func (c *Console) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// end tells those who wait that nothing more will come.
func (c *Console) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.wake()
}

// errEnded means that the guest went away before it reported what was waited for.
var errEnded = errors.New("the guest ended")

// wait returns when check is true; it is called with the lock held.
func (c *Console) wait(ctx context.Context, what string, check func() bool) error {
	for {
		c.mu.Lock()
		ok, ended, changed := check(), c.ended, c.changed
		c.mu.Unlock()
		switch {
		case ok:
			return nil
		case ended:
			return fmt.Errorf("wait for %s: %w; its last words:\n%s", what, errEnded, c.Tail(25))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; the guest's last words:\n%s", what, ctx.Err(), c.Tail(25))
		}
	}
}

// Step waits for the nth report (from 1) of the step called name.
func (c *Console) Step(ctx context.Context, name string, nth int) (Step, error) {
	var found Step
	err := c.wait(ctx, fmt.Sprintf("step %s (%d)", name, nth), func() bool {
		n := 0
		for _, s := range c.steps {
			if s.Name == name {
				if n++; n == nth {
					found = s
					return true
				}
			}
		}
		return false
	})
	return found, err
}

// Finish waits for the guest's last line.
func (c *Console) Finish(ctx context.Context) error {
	return c.wait(ctx, "the end of the guest's script", func() bool { return c.done })
}

// Steps returns all reports so far.
func (c *Console) Steps() []Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Step(nil), c.steps...)
}

// Tail returns the last n lines.
func (c *Console) Tail(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := append(append([]string(nil), c.lines...), c.partial)
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
