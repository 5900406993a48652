package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// PID returns the program's process id as the caller sees it.
func (p *Process) PID() (int, error) {
	pid := p.cmd.Process.Pid
	if !p.inner {
		return pid, nil
	}
	// The first process of the namespace starts the program as its only lasting child.
	for range 200 {
		select {
		case <-p.done:
			return 0, fmt.Errorf("%s has ended", p.cmd.Args[0])
		default:
		}
		if child := firstChild(pid); child != 0 {
			return child, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, fmt.Errorf("process %d has not started its program", pid)
}

func firstChild(pid int) int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		text, err := os.ReadFile(l)
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				return child
			}
		}
	}
	return 0
}

// limitedBuffer keeps the first and the last of what is written to it; safe for concurrent use.
type limitedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxOutputBytes = 1 << 20

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len()+len(p) > maxOutputBytes {
		b.buf.Next(b.buf.Len() / 2)
	}
	b.buf.Write(p)
	return len(p), nil
}

func (b *limitedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Tail returns at most n bytes from the end.
func (b *limitedBuffer) Tail(n int) string {
	s := b.String()
	return strings.TrimSpace(s[max(0, len(s)-n):])
}
