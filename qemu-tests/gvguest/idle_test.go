package gvguest_test

import (
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// turnsIn counts the turns of the worker's loop in d, without its own two.
func (b *bench) turnsIn(d time.Duration) uint64 {
	before := b.worker.Snapshot().Counters.Turns
	time.Sleep(d)
	return b.worker.Snapshot().Counters.Turns - before - 1
}

// TestIdle: a worker whose connections are idle, or wait for somebody else, does
// nothing.
func TestIdle(t *testing.T) {
	const wait = 3 * time.Second
	for _, s := range []setup{linuxSetup, setups()[1]} {
		t.Run(s.name, func(t *testing.T) {
			b := newBench(t, s)
			b.system = func(c *gvguest.Config) { c.RcvBufBytes, c.SndBufBytes = 64<<10, 64<<10 }
			b.boot()
			var conns []struct{ g, h end }
			for _, r := range routes() {
				c := b.connector(r)
				c.timeout = 3 * time.Minute
				for range 10 {
					gc, hc, err := c.pair()
					b.must(err)
					g, h := end(guestEnd{gc}), end(hostEnd{hc})
					b.must(swap(g, h, 1))
					b.must(swap(h, g, 2))
					conns = append(conns, struct{ g, h end }{g, h})
				}
				c.close()
			}
			time.Sleep(time.Second) // delayed acknowledgements, announcements
			if n := b.turnsIn(wait); n > 10 {
				t.Errorf("%d turns in %v with nothing to do", n, wait)
			}
			// All sockets are full in both directions: nobody reads.
			stuck := make(chan error, 2*len(conns))
			for _, c := range conns {
				go func() { stuck <- send(c.g, 3, 1<<30) }()
				go func() { stuck <- send(c.h, 4, 1<<30) }()
			}
			time.Sleep(2 * time.Second)
			// Each closed window may be probed, with back-off, by both stacks.
			if n := b.turnsIn(wait); n > uint64(len(conns))*40 {
				t.Errorf("%d turns in %v while nobody reads", n, wait)
			}
			// And no buffers, on top of it.
			b.guest.NIC.Withhold(true)
			for _, c := range conns {
				go func() { _ = expectFrom(c.g, stream(4), 1<<40) }()
			}
			time.Sleep(time.Second)
			if n := b.turnsIn(wait); n > uint64(len(conns))*40 {
				t.Errorf("%d turns in %v without receive buffers", n, wait)
			}
			b.guest.NIC.Withhold(false)
			for _, c := range conns {
				_ = c.h.abort()
			}
			for range 2 * len(conns) {
				<-stuck
			}
			for _, c := range conns {
				c.g.Close()
			}
		})
	}
}
