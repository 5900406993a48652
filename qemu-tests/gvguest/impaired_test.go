package gvguest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// TestImpaired moves data over all routes at a time, several connections each,
// while frames are lost, come twice or out of order, in one direction or both.
func TestImpaired(t *testing.T) {
	bad := []struct {
		name string
		imp  gvguest.Impairment
	}{
		{"loss 1%", gvguest.Impairment{Loss: 0.01}},
		{"loss 5%", gvguest.Impairment{Loss: 0.05}},
		{"duplication 5%", gvguest.Impairment{Duplicate: 0.05}},
		{"reordering 1%", gvguest.Impairment{Reorder: 0.01}},
		{"reordering 5%", gvguest.Impairment{Reorder: 0.05}},
		{"all 2%", gvguest.Impairment{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02}},
		{"all 5%", gvguest.Impairment{Loss: 0.05, Duplicate: 0.05, Reorder: 0.05}},
	}
	sets := setups()
	for i, x := range bad {
		for k, where := range []string{"to guest", "from guest", "both ways"} {
			if testing.Short() && (i+k)%3 != 0 {
				continue
			}
			s := sets[(i+k)%len(sets)]
			t.Run(x.name+" "+where+", "+s.name, func(t *testing.T) {
				b := newBench(t, s)
				if k != 1 {
					b.nic.ToGuest = x.imp
				}
				if k != 0 {
					b.nic.FromGuest = x.imp
				}
				b.boot()
				var all sync.WaitGroup
				for _, r := range routes() {
					c := b.connector(r)
					c.timeout = 60 * time.Second
					defer c.close()
					all.Go(func() { b.transfer(c, 3, 256<<10, 256<<10) })
				}
				all.Wait()
			})
		}
	}
}
