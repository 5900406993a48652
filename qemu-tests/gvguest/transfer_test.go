package gvguest_test

import (
	"net"
	"testing"
)

// TestTransfer moves data in each direction, and in both at a time, with every
// set of features and both families.
func TestTransfer(t *testing.T) {
	for _, s := range setups() {
		for _, f := range families() {
			for _, d := range []struct {
				name     string
				up, down int
			}{{"up", 4 << 20, 0}, {"down", 0, 4 << 20}, {"both", 2 << 20, 2 << 20}} {
				t.Run(s.name+"/"+f.name+"/"+d.name, func(t *testing.T) {
					b := newBench(t, s).boot()
					result := make(chan error, 1)
					addr, _ := b.serve(f, func(c *net.TCPConn) { result <- exchange(c, 2, d.down, 1, d.up) })
					c := b.dial(addr)
					defer c.Close()
					c.SetTimeout(patience)
					if err := exchange(c, 1, d.up, 2, d.down); err != nil {
						t.Errorf("guest: %v", err)
						b.dump()
						c.Abort()
					}
					if err := <-result; err != nil {
						t.Errorf("host: %v", err)
					}
				})
			}
		}
	}
}
