package udp

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// outOfOrder makes every call on the socket fd fail until the returned function is
// called.
func outOfOrder(t *testing.T, fd int) (repair func()) {
	t.Helper()
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	to := func(from int) {
		if err := syscall.Dup3(from, fd, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		syscall.Close(from)
	}
	to(null)
	return func() { to(saved) }
}

// failsAndRecovers checks that a socket that cannot be read, with a datagram in it,
// is neither asked all the time nor forgotten.
func (x *world) failsAndRecovers(fd int, datagram func()) {
	x.t.Helper()
	repair := outOfOrder(x.t.(*testing.T), fd)
	datagram()
	x.turn(100)
	for range 3 {
		if x.h.Run() {
			x.t.Fatal("asks again at once")
		}
		d := x.h.NextDeadlineMs() - x.link.NowMs
		if d <= 0 || d > 1000 || x.h.Counters.Retried == 0 {
			x.t.Fatalf("goes on in %d ms; counters %+v", d, x.h.Counters)
		}
		x.pass(d)
	}
	repair()
	if d := x.receive(); string(d.data) != "patience" {
		x.t.Fatalf("guest got %q", d.data)
	}
	if x.h.Run() || x.h.retryAtMs != 0 {
		x.t.Error("work is left")
	}
}

// TestReceiveFailsForAWhile: the poller tells only once of a datagram that cannot be
// received now, say for want of memory.
func TestReceiveFailsForAWhile(t *testing.T) {
	for _, burst := range []int{1, 8} {
		x, peer := newWorld(t), newHost(t, false)
		x.send(guest4, loop4, 5000, peer.port, []byte("hello"))
		_, from := peer.read()
		f := x.h.flows.at(0)
		f.burst = uint8(burst)
		x.failsAndRecovers(int(f.fd), func() { peer.write([]byte("patience"), from) })
	}
}

// TestListenerFailsForAWhile is the same for forwarded ports, the second of which
// goes on meanwhile.
func TestListenerFailsForAWhile(t *testing.T) {
	for _, dual := range []bool{false, true} {
		x, client := newWorld(t), newHost(t, false)
		e := hostsock.Endpoint{Addr: addr("0.0.0.0")}
		if dual {
			e = hostsock.Endpoint{}
		}
		port := x.listen(t, e, dual, dual, 7000)
		other := x.listen(t, e, dual, dual, 7001)
		to := netip.MustParseAddr("127.0.0.1")
		x.failsAndRecovers(x.h.listeners[0].FD, func() {
			client.write([]byte("patience"), netip.AddrPortFrom(to, port))
			x.turn(100)
			client.write([]byte("others"), netip.AddrPortFrom(to, other))
			if d := x.receive(); string(d.data) != "others" {
				t.Fatalf("guest got %q", d.data)
			}
		})
	}
}
