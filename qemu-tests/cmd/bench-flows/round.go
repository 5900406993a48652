package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// round is a number of connections that are all open at the same time.
type round struct {
	o     options
	g     *synth.Guest
	peers []*stage.Peer

	conns                    []*synth.Conn
	pending                  int // handshakes under way
	opened, exchanged, ended int
	resets                   int
}

// Event lets a connection do its part of the exchange.
func (r *round) Event(c *synth.Conn, what synth.Event) {
	if what&synth.Opened != 0 {
		r.opened++
		r.pending--
		r.g.Send(c, uint64(r.o.exchange))
	}
	if what&synth.Received != 0 && c.Received == uint64(r.o.exchange) {
		r.exchanged++
	}
	if what&synth.Reset != 0 {
		r.resets++
	}
	if what&synth.Closed != 0 {
		r.ended++
	}
}

// run opens n connections, waits until each has exchanged its bytes, and closes
// them.
func (r *round) run(b *stage.Backend, n int) error {
	r.opened, r.exchanged, r.ended, r.pending, r.conns = 0, 0, 0, 0, r.conns[:0]
	start := time.Now()
	if err := r.g.Run(r.o.limit, func() bool { r.more(n); return r.exchanged == n || r.resets > 0 }); err != nil {
		return r.fail("opening", err)
	}
	if r.resets > 0 {
		return r.fail("opening", errors.New("connections were reset"))
	}
	opened := time.Now()
	u, err := b.Usage()
	if err != nil {
		return err
	}
	fmt.Printf("  %d opened, %d bytes exchanged by each: %.2f s (%.0f per s); %s\n", n, r.o.exchange,
		opened.Sub(start).Seconds(), float64(n)/opened.Sub(start).Seconds(), show(u))
	closing := time.Now()
	for _, c := range r.conns {
		r.g.End(c)
	}
	if err := r.g.Run(r.o.limit, func() bool { return r.ended+r.resets >= n }); err != nil {
		return r.fail("closing", err)
	}
	if r.resets > 0 {
		return r.fail("closing", errors.New("connections were reset"))
	}
	fmt.Printf("  %d closed: %.2f s (%.0f per s)\n", n, time.Since(closing).Seconds(), float64(n)/time.Since(closing).Seconds())
	return r.rest(100 * time.Millisecond)
}

// more begins as many handshakes as may be under way.
func (r *round) more(n int) {
	for r.pending < r.o.pending && len(r.conns) < n {
		i := len(r.conns)
		peer := r.peers[i%len(r.peers)]
		c, err := r.g.Connect(stage.PeerAddr, peer.Addr(stage.EchoPort+i/len(r.peers)%stage.EchoPorts).Port())
		if err != nil {
			return // none is free: the next turn tries again
		}
		r.conns = append(r.conns, c)
		r.pending++
	}
}

func (r *round) fail(step string, err error) error {
	return fmt.Errorf("%s: %w: %d begun, %d open, %d exchanged, %d closed, %d reset (guest: %+v)",
		step, err, len(r.conns), r.opened, r.exchanged, r.ended, r.resets, r.g.Counters)
}

// rest lets time pass.
func (r *round) rest(d time.Duration) error {
	err := r.g.Run(d, func() bool { return false })
	if errors.Is(err, synth.ErrTimeout) {
		return nil
	}
	return err
}
