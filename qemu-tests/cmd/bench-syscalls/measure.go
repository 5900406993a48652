package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// operation is a row of the table.
type operation struct {
	name  string
	limit float64
	// passt is the number that is known of passt.
	passt float64
	times func(options) int
	run   func(*bench, int) error
}

var operations = []operation{
	{"segment_out", 2, 7, func(o options) int { return o.segments }, (*bench).segmentsOut},
	{"message_in_acked", 4, 14, func(o options) int { return o.messages }, (*bench).messagesIn},
	{"connect_request_response_close", 24, 72, func(o options) int { return o.cycles }, (*bench).shortConnections},
}

// result is what was measured of one program.
type result struct {
	program string
	calls   []counts // by operation, per time that it was done
	// totals are the same sums as perf counts them; nil if it cannot.
	totals []float64
	idle   idle
}

// idle is what connections without traffic cost.
type idle struct {
	flows          int
	wakesPerSecond float64
	cpu            time.Duration
	rssBytes       int
}

// measure runs a program through all operations.
func measure(ctx context.Context, s *stage.Stage, p stage.Program, o options) (r result, err error) {
	r.program = p.Name
	b, err := s.Start(ctx, p, o.mtu)
	if err != nil {
		return r, err
	}
	defer b.Stop()
	t, err := newBench(s, b, o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if o.perf {
		for _, op := range operations {
			if err := op.run(t, 10); err != nil { // so that nothing is done for the first time
				return r, fmt.Errorf("%s: %w", op.name, err)
			}
		}
		if r.totals, err = t.perfTotals(ctx, b.PID); err != nil {
			return r, fmt.Errorf("%w; it says: %s", err, b.Log())
		}
	}
	if r.calls, err = t.traced(ctx, b, s.Dir); err != nil {
		return r, fmt.Errorf("%w; it says: %s", err, b.Log())
	}
	if o.flows > 0 {
		r.idle, err = t.idleFlows(b)
	}
	return r, err
}

// traced counts the calls of each operation, less those that the process makes
// without any.
func (t *bench) traced(ctx context.Context, b *stage.Backend, dir string) ([]counts, error) {
	if t.o.keep != "" {
		dir = t.o.keep
	}
	path := filepath.Join(dir, b.Program.Name+".strace")
	defer func() {
		if t.o.keep == "" {
			os.Remove(path)
		}
	}()
	for _, op := range operations {
		if err := op.run(t, 10); err != nil { // so that nothing is done for the first time
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
	}
	tr, err := attach(ctx, b.PID, path)
	if err != nil {
		return nil, err
	}
	spans, err := t.spans()
	if err := errors.Join(err, tr.detach()); err != nil {
		return nil, err
	}
	found, err := count(path, spans)
	if err != nil {
		return nil, err
	}
	quiet := found[0]
	for i, op := range operations {
		c := found[i+1]
		for _, name := range slices.Collect(maps.Keys(c)) {
			n := c[name] - quiet[name]*spans[i+1].seconds()/spans[0].seconds()
			c[name] = max(n, 0) / float64(op.times(t.o))
		}
	}
	return found[1:], nil
}

// spans does nothing for a while, and then each operation, and returns when
// that was.
func (t *bench) spans() (out []span, err error) {
	do := func(f func() error) error {
		from := time.Now()
		err := errors.Join(f(), t.rest(200*time.Millisecond))
		out = append(out, span{from, time.Now()})
		return err
	}
	if err := t.rest(time.Second); err != nil {
		return nil, err
	}
	if err := do(func() error { return t.rest(2 * time.Second) }); err != nil {
		return nil, err
	}
	for _, op := range operations {
		if err := do(func() error { return op.run(t, op.times(t.o)) }); err != nil {
			return nil, fmt.Errorf("%s: %w", op.name, err)
		}
	}
	return out, nil
}

// idleFlows opens connections and looks what the process does while they are
// idle. There are fewer than asked for where descriptors are short: passt takes two
// for each.
func (t *bench) idleFlows(b *stage.Backend) (r idle, err error) {
	r.flows = min(t.o.flows, (t.o.files-1000)/b.Program.FilesPerFlow)
	conns, fds := make([]*synth.Conn, 0, r.flows), make([]int, 0, r.flows)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for range r.flows {
		c, fd, err := t.open()
		if err != nil {
			return r, fmt.Errorf("connection %d: %w", len(fds), err)
		}
		conns, fds = append(conns, c), append(fds, fd)
	}
	if err := t.rest(2 * time.Second); err != nil {
		return r, err
	}
	before, err := b.Usage()
	if err != nil {
		return r, err
	}
	from := time.Now()
	if err := t.rest(t.o.idle); err != nil {
		return r, err
	}
	after, err := b.Usage()
	if err != nil {
		return r, err
	}
	r.wakesPerSecond = float64(after.Switches-before.Switches) / time.Since(from).Seconds()
	r.cpu = after.CPU - before.CPU
	r.rssBytes = after.RSSBytes
	for _, c := range conns {
		t.g.Abort(c)
	}
	return r, t.rest(500 * time.Millisecond)
}
