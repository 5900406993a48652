package gvguest_test

import (
	"sync"
	"testing"
)

// TestTransfer moves data in each direction, and in both at a time, with every
// set of features, over every route.
func TestTransfer(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			b := newBench(t, s).boot()
			for _, r := range routes() {
				for _, d := range []struct {
					name     string
					up, down int
				}{{"up", 4 << 20, 0}, {"down", 0, 4 << 20}, {"both", 2 << 20, 2 << 20}} {
					t.Run(r.String()+"/"+d.name, func(t *testing.T) {
						b := b.in(t)
						c := b.connector(r)
						defer c.close()
						b.transfer(c, 1, d.up, d.down)
					})
				}
			}
		})
	}
}

// transfer moves up bytes from the guest and down bytes to it over each of n
// connections at a time.
func (b *bench) transfer(c *connector, n, up, down int) {
	b.Helper()
	var all sync.WaitGroup
	var once sync.Once
	for i := range n {
		g, h, err := c.pair()
		if err != nil {
			b.Error(err)
			break
		}
		id := uint64(2 * i)
		all.Go(func() {
			if err := exchange(g, id, up, id+1, down); err != nil {
				b.Errorf("%v: guest, connection %d: %v", c.r, i, err)
				once.Do(b.dump)
				g.Abort()
			}
			g.Close()
		})
		all.Go(func() {
			if err := exchange(h, id+1, down, id, up); err != nil {
				b.Errorf("%v: host, connection %d: %v", c.r, i, err)
				once.Do(b.dump)
			}
			h.Close()
		})
	}
	all.Wait()
}
