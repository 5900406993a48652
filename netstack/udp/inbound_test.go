package udp

import (
	"bytes"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// listen forwards a free port of the host to port of the guest.
func (x *world) listen(t *testing.T, e hostsock.Endpoint, v6, dual bool, port uint16) uint16 {
	t.Helper()
	fd, err := hostsock.ListenDatagram(e, hostsock.ListenOptions{V6: v6, Dual: dual})
	if err != nil {
		t.Skip(err)
	}
	l := Listener{FD: fd, V6: v6, Dual: dual, Any: e.Addr.IsUnspecified(), Port: port}
	if err := x.h.Listen(l); err != nil {
		t.Fatal(err)
	}
	var c hostsock.Calls
	local, errno := c.LocalEndpoint(fd)
	if errno != 0 {
		t.Fatal(errno)
	}
	return local.Port
}

func TestInbound(t *testing.T) {
	for _, tc := range []struct {
		name           string
		bound          header.Addr
		v6, dual       bool
		peer6          bool
		dial           string
		seenAs, target header.Addr
	}{
		{"IPv4 wildcard", addr("0.0.0.0"), false, false, false, "127.0.0.1", loop4, guest4},
		{"IPv4 other loopback address", addr("0.0.0.0"), false, false, false, "127.0.0.9", loop4, guest4},
		{"IPv4 address", addr("127.0.0.1"), false, false, false, "127.0.0.1", loop4, guest4},
		{"IPv6", addr("::1"), true, false, true, "::1", loop6, guest6},
		{"dual, IPv6 peer", header.Addr{}, true, true, true, "::1", loop6, guest6},
		{"dual, IPv4 peer", header.Addr{}, true, true, false, "127.0.0.1", loop4, guest4},
		{"dual, IPv4 peer, other address", header.Addr{}, true, true, false, "127.0.0.9", loop4, guest4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x, client := newWorld(t), newHost(t, tc.peer6)
			port := x.listen(t, hostsock.Endpoint{Addr: tc.bound}, tc.v6, tc.dual, 7000)
			for _, n := range []int{0, 5, 1473, 9000} {
				want := pattern(n)
				client.write(want, addrPort(tc.dial, port))
				d := x.receive()
				if !bytes.Equal(d.data, want) || d.Dst != tc.target || d.DstPort != 7000 || d.Src != tc.seenAs || d.SrcPort != client.port {
					t.Fatalf("guest got %d bytes, %v:%d > %v:%d", len(d.data), d.Src, d.SrcPort, d.Dst, d.DstPort)
				}
				x.send(tc.target, d.Src, 7000, d.SrcPort, want)
				got, from := client.read()
				if !bytes.Equal(got, want) {
					t.Fatalf("client got %d bytes", len(got))
				}
				// The answer comes from the address that was asked.
				if from != addrPort(tc.dial, port) {
					t.Errorf("answer from %v, asked %s", from, tc.dial)
				}
			}
			if c := x.h.Stats(); c.Inbound != 1 || c.Opened != 1 || c.SendFailed != 0 {
				t.Errorf("counters %+v", c)
			}
		})
	}
}

// TestGuestCallsFromForwardedPort lets a server in the guest begin: its port
// towards the world is the forwarded one.
func TestGuestCallsFromForwardedPort(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	port := x.listen(t, hostsock.Endpoint{Addr: addr("0.0.0.0")}, false, false, 7000)
	// A flow to a mapped address has a socket of its own.
	x.send(guest4, loop4, 7000, peer.port, []byte("mapped"))
	if _, from := peer.read(); from.Port() == port {
		t.Error("mapped destination went through the listener")
	}
	k := flowKey{Local: guest4, Remote: addr("192.0.2.9"), LocalPort: 7000, RemotePort: 99, Proto: header.ProtoUDP}
	if got := x.h.listenerFrom(&k, &k.Remote); got != 0 {
		t.Errorf("listener %d, want 0", got)
	}
	k.LocalPort++
	if got := x.h.listenerFrom(&k, &k.Remote); got != -1 {
		t.Error("another port uses the listener")
	}
}

func TestInboundFullRing(t *testing.T) {
	x, client := newWorld(t), newHost(t, false)
	port := x.listen(t, hostsock.Endpoint{}, true, true, 7000)
	x.guest.TakeAway()
	for i := range 10 {
		client.write(pattern(100+i), addrPort("127.0.0.1", port))
	}
	x.until("queue to starve", x.queue.Starved)
	if x.h.Run() {
		t.Fatal("work without buffers")
	}
	x.guest.Add(64, 1536)
	x.queue.Refill()
	x.h.Refilled()
	for i := range 10 {
		if d := x.receive(); !bytes.Equal(d.data, pattern(100+i)) {
			t.Fatalf("datagram %d: %d bytes", i, len(d.data))
		}
	}
}

func TestInboundWithoutGuest(t *testing.T) {
	x, client := newWorld(t), newHost(t, false)
	port := x.listen(t, hostsock.Endpoint{Addr: addr("0.0.0.0")}, false, false, 7000)
	x.link.Guest4 = header.Addr{}
	client.write([]byte("x"), addrPort("127.0.0.1", port))
	x.until("datagram to be dropped", func() bool { return x.h.Counters.Undeliverable == 1 })
	x.link.Guest4, x.link.GuestMAC = guest4, header.Broadcast
	client.write([]byte("y"), addrPort("127.0.0.1", port))
	if d := x.receive(); string(d.data) != "y" || !x.link.WantGuest {
		t.Errorf("got %q, guest asked for: %v", d.data, x.link.WantGuest)
	}
}

// TestInboundError has the client gone when the guest answers.
func TestInboundError(t *testing.T) {
	for _, dual := range []bool{false, true} {
		x, client := newWorld(t), newHost(t, false)
		port := x.listen(t, hostsock.Endpoint{Addr: pick(dual, header.Addr{}, addr("0.0.0.0"))}, dual, dual, 7000)
		client.write([]byte("x"), addrPort("127.0.0.1", port))
		d := x.receive()
		client.Close()
		x.send(guest4, d.Src, 7000, d.SrcPort, []byte("too late"))
		e := x.receive()
		if e.Proto != header.ProtoICMP || e.Src != loop4 || e.Dst != guest4 {
			t.Errorf("dual %v: got %+v", dual, e.Packet)
		}
	}
}

func pick(cond bool, a, b header.Addr) header.Addr {
	if cond {
		return a
	}
	return b
}

// TestInboundFromOurLinkLocal: a peer that is shown under our link-local address
// writes to the guest's link-local one, since that is where a server that is bound
// to no address answers from (RFC 6724 section 5, rule 2).
func TestInboundFromOurLinkLocal(t *testing.T) {
	own := addr("fe80::1")
	m, err := addrmap.New(addrmap.Config{Own: addrmap.Pair{V6: own.Netip()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{true, false} {
		x := newWorld(t, func(c *Config) { c.Map = m })
		client := newHost(t, true)
		want := guest6
		if known {
			want = addr("fe80::99")
			x.link.GuestLinkLocal = want
		}
		port := x.listen(t, hostsock.Endpoint{Addr: addr("::1")}, true, false, 7000)
		client.write([]byte("hello"), addrPort("::1", port))
		d := x.receive()
		if d.Src != own || d.Dst != want {
			t.Errorf("known %v: guest got %v > %v, want %v > %v", known, d.Src, d.Dst, own, want)
		}
		x.send(want, d.Src, 7000, d.SrcPort, []byte("answer"))
		if got, _ := client.read(); string(got) != "answer" {
			t.Errorf("known %v: client got %q", known, got)
		}
	}
}
