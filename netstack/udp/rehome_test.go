package udp

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
)

// TestRehome: a flow that would lead elsewhere now is given up, and begins anew
// with the guest's next datagram; others stay as they are.
func TestRehome(t *testing.T) {
	for _, fam := range families {
		t.Run(fam.name, func(t *testing.T) {
			x, peer := newWorld(t), newHost(t, fam.v6)
			port := freePort(t, fam.v6)
			x.send(fam.guest, fam.loop, port, peer.port, []byte("one"))
			_, first := peer.read()
			x.h.Rehome()
			if c := x.h.Stats(); x.h.NumFlows() != 1 || c.Rehomed != 0 {
				t.Fatalf("nothing has changed: %d flows, counters %+v", x.h.NumFlows(), c)
			}

			old := *x.h.cfg.Map
			m, err := addrmap.New(addrmap.Config{})
			if err != nil {
				t.Fatal(err)
			}
			*x.h.cfg.Map = *m
			x.h.Rehome()
			if c := x.h.Stats(); x.h.NumFlows() != 0 || c.Rehomed != 1 {
				t.Fatalf("the mapping has changed: %d flows, counters %+v", x.h.NumFlows(), c)
			}

			*x.h.cfg.Map = old
			x.send(fam.guest, fam.loop, port, peer.port, []byte("two"))
			if got, from := peer.read(); string(got) != "two" || from != first {
				t.Errorf("got %q from %v, the first came from %v", got, from, first)
			}
		})
	}
}
