package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tracer is strace, attached to all threads of a process.
type tracer struct {
	cmd  *exec.Cmd
	path string
	done chan error
}

// attach starts to trace pid; the trace goes to the file at path.
func attach(ctx context.Context, pid int, path string) (*tracer, error) {
	t := &tracer{path: path, done: make(chan error, 1)}
	t.cmd = exec.CommandContext(ctx, "strace", "-f", "-qq", "-ttt", "-s", "0", "-e", "signal=none", "-o", path, "-p", strconv.Itoa(pid))
	t.cmd.Stderr = os.Stderr
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start strace: %w", err)
	}
	go func() { t.done <- t.cmd.Wait() }()
	for range 500 {
		if traced(pid) {
			return t, nil
		}
		select {
		case err := <-t.done:
			return nil, fmt.Errorf("strace ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil, errors.Join(errors.New("strace does not get hold of the backend"), t.detach())
}

// traced says whether every thread of pid has a tracer.
func traced(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "TracerPid:\t0\n") {
			return false
		}
	}
	return len(tasks) > 0
}

// detach ends the trace and leaves the process running.
func (t *tracer) detach() error {
	if err := t.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("end strace: %w", err)
	}
	select {
	case <-t.done: // it exits with the signal's status
		return nil
	case <-time.After(5 * time.Second):
		return errors.New("strace does not end")
	}
}

// span is a piece of time in which calls are counted.
type span struct{ from, to time.Time }

func (s span) seconds() float64 { return s.to.Sub(s.from).Seconds() }

// counts are calls by name.
type counts map[string]float64

func (c counts) total() (n float64) {
	for _, v := range c {
		n += v
	}
	return n
}

// count reads a trace and counts the calls that began in each span.
func count(path string, spans []span) ([]counts, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	defer f.Close()
	out := make([]counts, len(spans))
	for i := range out {
		out[i] = counts{}
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		at, name, ok := parseLine(lines.Text())
		if !ok {
			continue
		}
		for i, s := range spans {
			if !at.Before(s.from) && at.Before(s.to) {
				out[i][name]++
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	return out, nil
}

// parseLine takes the time and the name out of a line
//
//	PID SECONDS.MICROSECONDS NAME(ARGUMENTS...
//
// and refuses lines that go on with a call ("<... NAME resumed>") or tell of
// something else.
func parseLine(line string) (at time.Time, name string, ok bool) {
	_, rest, ok := strings.Cut(line, " ")
	if !ok {
		return at, "", false
	}
	stamp, call, ok := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if !ok {
		return at, "", false
	}
	sec, micro, ok := strings.Cut(stamp, ".")
	if !ok {
		return at, "", false
	}
	s, err1 := strconv.ParseInt(sec, 10, 64)
	us, err2 := strconv.ParseInt(micro, 10, 64)
	if err1 != nil || err2 != nil {
		return at, "", false
	}
	name, _, ok = strings.Cut(call, "(")
	if !ok || name == "" || strings.ContainsAny(name, "<+- ") {
		return at, "", false
	}
	return time.Unix(s, us*1000), name, true
}
