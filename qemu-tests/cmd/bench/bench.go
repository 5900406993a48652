package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
)

// bench is a run of the program.
type bench struct {
	o       options
	h       *harness.Harness
	doc     *document
	gvproxy program
	labs    sync.Mutex // a harness makes one lab at a time
}

// candidate is who may serve the guest for a part of the table.
type candidate struct {
	name string
	skip string // why it cannot
	s    *stand // nil if it did not start
}

// all measures what was asked for. A part of the table is a guest and an MTU: its guests run side by side, so that the backends
// take turns at each row within seconds. What a failure leaves out is shown as failed.
func (b *bench) all(ctx context.Context) error {
	var chosen []*test
	for _, t := range tests() {
		if b.o.rows.MatchString(t.name) {
			chosen = append(chosen, t)
		}
	}
	if len(chosen) == 0 {
		return errors.New("no row has such a name")
	}
	for _, guest := range b.o.guests {
		for _, mtu := range b.o.mtus {
			if err := b.part(ctx, guest, mtu, chosen); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) part(ctx context.Context, guest string, mtu int, chosen []*test) error {
	var all []*candidate
	defer func() {
		for _, c := range all {
			if c.s != nil {
				c.s.close()
			}
		}
	}()
	var booting sync.WaitGroup
	for _, name := range append([]string{ours}, b.o.peers...) {
		c := &candidate{name: name, skip: b.cannotServe(name, guest, mtu)}
		all = append(all, c)
		if c.skip == "" {
			booting.Go(func() { b.restart(ctx, c, guest, mtu) })
		}
	}
	booting.Wait()
	for _, t := range chosen {
		logf("%s, MTU %d: %s", guest, mtu, t.name)
		b.measure(ctx, t, all, guest, mtu)
		// After each test, so that little is lost if this ends.
		b.doc.update(time.Now())
		if err := b.doc.write(b.o.out); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// restart boots a candidate's guest.
func (b *bench) restart(ctx context.Context, c *candidate, guest string, mtu int) {
	if c.s != nil {
		c.s.close()
	}
	var err error
	if c.s, err = b.newStand(ctx, c.name, guest, mtu); err != nil {
		c.s = nil
		logf("FAILED: %v", err)
	}
}

// measure runs one test with all candidates in turn.
func (b *bench) measure(ctx context.Context, t *test, all []*candidate, guest string, mtu int) {
	var able []*candidate
	for _, c := range all {
		switch why := c.skip; {
		case t.limit && c.name != ours:
		case why != "":
			b.doc.skip(t, guest, mtu, c.name, why)
		case cannotMeasure(c.name, t) != "":
			b.doc.skip(t, guest, mtu, c.name, cannotMeasure(c.name, t))
		default:
			able = append(able, c)
		}
	}
	if b.o.replace {
		b.doc.forget(t, guest, mtu)
	}
	broken := map[*candidate]bool{}
	for _, c := range able {
		broken[c] = c.s != nil && !b.prepared(ctx, c, t, guest, mtu)
	}
	for run := range b.o.runs {
		for i := range able {
			c := able[(i+run)%len(able)] // who is first alternates too
			values := nothing(t)
			if !broken[c] {
				values = b.once(ctx, c, t, guest, mtu)
			}
			b.doc.add(t, guest, mtu, c.name, values)
		}
		b.doc.align(t, guest, mtu)
	}
	for _, c := range able {
		if t.after != nil && c.s != nil {
			if err := t.after(ctx, c.s); err != nil {
				b.failed(c, t, guest, mtu, err)
			}
		}
	}
}

// prepared says whether a test's preparations have succeeded.
func (b *bench) prepared(ctx context.Context, c *candidate, t *test, guest string, mtu int) bool {
	if t.before == nil {
		return true
	}
	err := t.before(ctx, c.s)
	if err != nil {
		b.failed(c, t, guest, mtu, err)
	}
	return err == nil
}

// nothing are the values of a test that failed.
func nothing(t *test) []float64 {
	none := make([]float64, len(t.rows))
	for i := range none {
		none[i] = math.NaN()
	}
	return none
}

// once returns the values of a test. A guest that was given up is booted again.
func (b *bench) once(ctx context.Context, c *candidate, t *test, guest string, mtu int) []float64 {
	if c.s == nil {
		b.restart(ctx, c, guest, mtu)
		if c.s == nil || !b.prepared(ctx, c, t, guest, mtu) {
			return nothing(t)
		}
	}
	values, err := t.measure(ctx, c.s, b.o.seconds)
	if err == nil && len(values) != len(t.rows) {
		err = fmt.Errorf("%d values for %d rows", len(values), len(t.rows))
	}
	if err != nil {
		b.failed(c, t, guest, mtu, err)
		return nothing(t)
	}
	logf("    %-16s %8.1f %s", c.name, values[0], t.rows[0].unit)
	return values
}

// failed tells of a failure, and gives up a guest that may not be well.
func (b *bench) failed(c *candidate, t *test, guest string, mtu int, err error) {
	logf("FAILED: %s, %s, MTU %d, %s: %v", c.name, guest, mtu, t.name, err)
	if !errors.Is(err, errCommand) && c.s != nil {
		c.s.close()
		c.s = nil
	}
}
