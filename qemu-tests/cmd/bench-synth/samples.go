package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// samples holds the values of all runs.
type samples struct {
	programs []stage.Program
	mtus     []int
	rows     []row
	values   map[key][]float64
}

// key names a series: a program, an MTU, a row by its number, and which of its
// two lines.
type key struct {
	program string
	mtu     int
	row     int
	perCPU  bool
}

func newSamples(programs []stage.Program, mtus []int, rows []row) *samples {
	return &samples{programs: programs, mtus: mtus, rows: rows, values: map[key][]float64{}}
}

// round measures each program once. The order turns around with each round.
func (s *samples) round(ctx context.Context, st *stage.Stage, peer *stage.Peer, mtu, n int, o options) error {
	for i := range s.programs {
		p := s.programs[(i+n)%len(s.programs)]
		if err := s.program(ctx, st, peer, p, mtu, o); err != nil {
			return fmt.Errorf("%s with MTU %d: %w", p.Name, mtu, err)
		}
	}
	if o.flush != "" {
		return nil // only ours count
	}
	return s.plain(ctx, st, peer, mtu, o)
}

// program measures all rows on a fresh backend.
func (s *samples) program(ctx context.Context, st *stage.Stage, peer *stage.Peer, p stage.Program, mtu int, o options) (err error) {
	b, err := st.Start(ctx, p, mtu)
	if err != nil {
		return err
	}
	defer b.Stop()
	d := &driver{b: b, peer: peer}
	d.g, err = b.Guest(synth.Config{MTU: mtu, Handler: d, Datagrams: d, Spin: o.spin, TxCalls: o.txCalls})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.g.Close()) }()
	for i, r := range s.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		rate, perCPU, err := d.measure(r, o.duration)
		if err != nil {
			return fmt.Errorf("%s: %w; it says: %s", r.name, err, b.Log())
		}
		if o.verbose {
			fmt.Printf("%-13s %6d %-50s %12.2f %-10s %12.2f %s\n", p.Name, mtu, r.name, rate, r.unit, perCPU, r.perCPU)
		}
		s.add(p.Name, mtu, i, rate, perCPU)
	}
	return nil
}

func (s *samples) add(program string, mtu, row int, rate, perCPU float64) {
	for _, v := range []struct {
		perCPU bool
		value  float64
	}{{false, rate}, {true, perCPU}} {
		k := key{program, mtu, row, v.perCPU}
		s.values[k] = append(s.values[k], v.value)
	}
}

// plainName stands for a loop of send or recv without a guest.
const plainName = "plain sockets"

// plain measures what the machine can do without a guest.
func (s *samples) plain(ctx context.Context, st *stage.Stage, peer *stage.Peer, mtu int, o options) error {
	for i, r := range s.rows {
		if !r.send && !r.recv {
			continue
		}
		p, err := st.StartPlain(ctx, peer, r.send, r.recv)
		if err != nil {
			return err
		}
		rate, perCPU, err := measurePlain(p, peer, r, o.duration)
		p.Stop()
		if err != nil {
			return fmt.Errorf("%s: %w", plainName, err)
		}
		if o.verbose {
			fmt.Printf("%-13s %6d %-50s %12.2f %-10s %12.2f %s\n", plainName, mtu, r.name, rate, r.unit, perCPU, r.perCPU)
		}
		s.add(plainName, mtu, i, rate, perCPU)
	}
	return nil
}

func measurePlain(p, peer *stage.Peer, r row, d time.Duration) (rate, perCPU float64, err error) {
	time.Sleep(warmUp)
	before, err := p.Usage()
	if err != nil {
		return 0, 0, err
	}
	from, bytes := time.Now(), p.Counters().BytesIn+peer.Counters().BytesIn
	time.Sleep(d)
	amount := float64(p.Counters().BytesIn+peer.Counters().BytesIn-bytes) * r.scale
	seconds := time.Since(from).Seconds()
	after, err := p.Usage()
	return amount / seconds, amount / (after.CPU - before.CPU).Seconds(), err
}
