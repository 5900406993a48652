package udp

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
)

// TestFaultAnywhere makes guest memory vanish at every place where it is touched,
// one after the other. Datagrams may be lost then; those that follow are not.
func TestFaultAnywhere(t *testing.T) {
	for _, place := range ringtest.Places() {
		ok, more := true, true
		for at := 0; ok && more; at++ {
			ok = t.Run(fmt.Sprintf("%s, %d", place, at), func(t *testing.T) {
				f := ringtest.NewFault(t, place, at)
				goOn(t, f)
				more = f.Fired
			})
		}
	}
}

// faultTurn is a turn of a worker whose guest's memory may vanish: what was lost
// with the ring is given back at once.
func (x *world) faultTurn(f *ringtest.Fault, part func()) {
	if ringtest.Guard(&x.link.MemoryGone, part) {
		x.queue.Abandon()
		x.h.Fault()
		x.turn(0) // without a ring
		x.newRing(f)
	}
}

func (x *world) newRing(f *ringtest.Fault) {
	x.guest, x.seen = ringtest.New(x.t, x.queue, 512, 1536, true), 0
	x.queue.Attach(f.Ring(x.guest), x.guest, framequeue.Format{Mergeable: true})
}

// goOn sends datagrams all ways, small and fragmented, with errors in between,
// through a ring that runs empty, and does all of it once more when the fault is
// over.
func goOn(t *testing.T, f *ringtest.Fault) {
	x := newWorld(t)
	fd, err := hostsock.ListenDatagram(hostsock.Endpoint{Addr: header.AddrFromNetip(netip.MustParseAddr("127.0.0.1"))}, hostsock.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := new(hostsock.Calls).LocalEndpoint(fd)
	if err := x.h.Listen(Listener{FD: fd, Port: 7000, Any: true}); err != nil {
		t.Fatal(err)
	}
	forward := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), e.Port)
	x.newRing(f)
	peer, other, client := newHost(t, false), newHost(t, false), newHost(t, false)
	closed := newHost(t, false)
	closed.Close()
	send := func(port uint16, payload []byte) {
		x.faultTurn(f, func() {
			fr := x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, 5000, port, payload)
			f.Frame(fr.Vecs)
			x.h.FromGuest(fr)
			x.h.EndBatch()
			x.queue.Flush()
		})
	}
	turn := func() { x.faultTurn(f, func() { x.turn(5) }) }
	for range 2 {
		send(closed.port, []byte("nobody is there"))
		turn()
		send(closed.port, []byte("nor now"))
		turn()
		for _, p := range []*host{peer, other} {
			send(p.port, pattern(100))
			_ = p.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if _, from, err := p.ReadFromUDPAddrPort(make([]byte, 2000)); err == nil {
				p.write(pattern(10), from)
				p.write(pattern(5000), from)
			}
		}
		client.write(pattern(20), forward)
		client.write(pattern(4000), forward)
		for range 3 {
			turn()
		}
		x.guest.TakeAway()
		client.write(pattern(3000), forward)
		client.write(pattern(20), forward)
		turn()
		x.guest.Add(512, 1536)
		x.faultTurn(f, x.refill)
		turn()
	}
	f.Over = true
	x.lives(peer, client, forward)
}

// refill is what a worker does when the guest has added buffers.
func (x *world) refill() {
	if x.queue.Refill() {
		x.h.Refilled()
	}
}

// lives checks that datagrams go all ways, and that nothing is left to do then.
func (x *world) lives(peer, client *host, forward netip.AddrPort) {
	x.t.Helper()
	x.guest.Add(512, 1536)
	x.refill()
	for range 5 {
		x.turn(1)
	}
	fds := []int{x.h.listeners[0].FD}
	for i := range uint32(x.h.flows.live) {
		if f := x.h.flows.at(i); f.has(inUse) && f.fd >= 0 {
			fds = append(fds, int(f.fd))
		}
	}
	for _, fd := range fds {
		if n, errno := x.h.calls.Recv(fd, nil); errno != hostsock.EAGAIN {
			x.t.Errorf("a datagram was left in its socket: %d, %v", n, errno)
		}
	}
	_ = peer.SetReadDeadline(time.Now().Add(time.Millisecond))
	for err := error(nil); err == nil; {
		_, _, err = peer.ReadFromUDPAddrPort(make([]byte, 2000))
	}
	x.seen = len(x.guest.Frames)
	x.send(guest4, loop4, 5000, peer.port, []byte("still there?"))
	_, from := peer.read()
	peer.write([]byte("yes"), from)
	client.write([]byte("me too"), forward)
	left := map[string]bool{"yes": true, "me too": true}
	for len(left) > 0 {
		delete(left, string(x.receive().data))
	}
	if x.h.Run() || len(x.h.ready)+len(x.h.running)+len(x.h.parked) != 0 || x.h.readyListen || x.h.parkedListen {
		x.t.Errorf("work is left: %v, %v, %v, listeners %v, %v", x.h.ready, x.h.running, x.h.parked, x.h.readyListen, x.h.parkedListen)
	}
	x.pass(3 * lastingMs)
	if n := x.h.NumFlows(); n != 0 || x.h.NextDeadlineMs() != -1 {
		x.t.Errorf("%d flows are left, next deadline %d", n, x.h.NextDeadlineMs())
	}
}
