package udp

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// noMap makes the guest's way to the host's loopback lead elsewhere, until back is
// called.
func (x *world) noMap() (back func()) {
	x.t.Helper()
	old := *x.h.cfg.Map
	m, err := addrmap.New(addrmap.Config{})
	if err != nil {
		x.t.Fatal(err)
	}
	*x.h.cfg.Map = *m
	return func() { *x.h.cfg.Map = old }
}

// TestRehome: a flow that would lead elsewhere now is given up with the guest's next
// datagram, and begins anew; others stay as they are.
func TestRehome(t *testing.T) {
	for _, fam := range families {
		t.Run(fam.name, func(t *testing.T) {
			x, peer := newWorld(t), newHost(t, fam.v6)
			port := freePort(t, fam.v6)
			x.send(fam.guest, fam.loop, port, peer.port, []byte("one"))
			_, first := peer.read()
			x.h.Rehome()
			x.send(fam.guest, fam.loop, port, peer.port, []byte("still one"))
			if got, from := peer.read(); string(got) != "still one" || from != first {
				t.Errorf("got %q from %v, the first came from %v", got, from, first)
			}
			if c := x.h.Stats(); x.h.NumFlows() != 1 || c.Rehomed != 0 {
				t.Fatalf("nothing has changed: %d flows, counters %+v", x.h.NumFlows(), c)
			}

			back := x.noMap()
			x.h.Rehome()
			x.send(fam.guest, fam.loop, port, peer.port, []byte("lost"))
			if c := x.h.Stats(); c.Rehomed != 1 { // a new one may or may not lead anywhere
				t.Fatalf("the mapping has changed: counters %+v", c)
			}

			back()
			x.h.Rehome()
			x.send(fam.guest, fam.loop, port, peer.port, []byte("two"))
			if got, from := peer.read(); string(got) != "two" || from != first {
				t.Errorf("got %q from %v, the first came from %v", got, from, first)
			}
		})
	}
}

// TestRehomeIsQuick: a change of the host costs a worker nothing for flows that the
// guest does not use, however many there are.
func TestRehomeIsQuick(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	const flows = 20
	for range flows {
		x.send(guest4, loop4, freePort(t, false), peer.port, []byte("one"))
	}
	x.noMap()
	x.h.Rehome()
	if c := x.h.Stats(); x.h.NumFlows() != flows || c.Rehomed != 0 {
		t.Errorf("%d flows of %d, counters %+v", x.h.NumFlows(), flows, c)
	}
}

// TestRehomeOnTheWay: a flow that is on its way between workers when the host changes
// is looked at where it comes to.
func TestRehomeOnTheWay(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	port := freePort(t, false)
	x.send(guest4, loop4, port, peer.port, []byte("one"))
	k := flowtable.Key{Local: guest4, Remote: loop4, LocalPort: port, RemotePort: peer.port, Proto: header.ProtoUDP}
	m := x.h.Detach(&k)
	if m == nil {
		t.Fatal("no flow")
	}
	x.noMap()
	x.h.Rehome()
	x.h.Attach(m)
	x.send(guest4, loop4, port, peer.port, []byte("two"))
	if c := x.h.Stats(); c.Rehomed != 1 {
		t.Errorf("counters %+v", c)
	}
}
