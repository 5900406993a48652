package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// perfEvent is what perf counts: every system call, when it is entered.
const perfEvent = "raw_syscalls:sys_enter"

// havePerf says whether system calls can be counted with perf, which costs next to
// nothing, while strace makes each call so slow that timers expire that would not
// have.
func havePerf(ctx context.Context) bool {
	n, err := perfCount(ctx, "true", nil)
	return err == nil && n > 0
}

// perfCount counts the calls of a program, or with pid those of a process while f
// runs.
func perfCount(ctx context.Context, of string, f func() error) (float64, error) {
	args := []string{"stat", "-x", ",", "-e", perfEvent}
	if f == nil {
		args = append(args, of)
	} else {
		args = append(args, "-p", of)
	}
	cmd := exec.CommandContext(ctx, "perf", args...)
	var out bytes.Buffer
	cmd.Stderr = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start perf: %w", err)
	}
	var err error
	if f != nil {
		time.Sleep(300 * time.Millisecond) // it does not say when it has begun
		err = f()
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGINT))
	}
	_ = cmd.Wait() // it exits with the signal's status
	if err != nil {
		return 0, err
	}
	return parsePerf(out.String())
}

// parsePerf takes the count out of what "perf stat -x ," prints.
func parsePerf(text string) (float64, error) {
	for line := range strings.Lines(text) {
		count, rest, ok := strings.Cut(line, ",")
		if !ok || !strings.Contains(rest, perfEvent) {
			continue
		}
		n, err := strconv.ParseFloat(count, 64)
		if err != nil {
			return 0, fmt.Errorf("perf counted %q", count)
		}
		return n, nil
	}
	return 0, fmt.Errorf("perf said %q", text)
}

// perfTotals counts the calls for each operation, less those that the process makes
// without any.
func (t *bench) perfTotals(ctx context.Context, pid int) ([]float64, error) {
	of := strconv.Itoa(pid)
	quiet, err := perfCount(ctx, of, func() error { return t.rest(2 * time.Second) })
	if err != nil {
		return nil, err
	}
	var totals []float64
	for _, op := range operations {
		from := time.Now()
		n, err := perfCount(ctx, of, func() error {
			return errors.Join(op.run(t, op.times(t.o)), t.rest(200*time.Millisecond))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
		n -= quiet * time.Since(from).Seconds() / 2
		totals = append(totals, max(n, 0)/float64(op.times(t.o)))
	}
	return totals, nil
}
