package icmp

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/nstest"
)

// TestTraceroute sends requests with a small TTL through a router: its answer
// must reach the guest, from it and about the guest's own request.
func TestTraceroute(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	nstest.AddRouter(t, 1400)
	for _, tc := range []struct {
		guest, dst, hop header.Addr
		typ             byte
	}{
		{guest4, addr("198.51.100.1"), addr(nstest.Far4), header.ICMPTimeExceeded},
		{guest6, addr("2001:db8:99::1"), addr(nstest.Far6), header.ICMPv6TimeExceeded},
	} {
		x := newWorld(t)
		x.ping(tc.guest, tc.dst, 1, 4321, 7, pattern(32))
		m := x.receive()
		if m.typ != tc.typ || m.code != 0 || m.Src != tc.hop || m.Dst != tc.guest {
			t.Fatalf("got type %d, code %d from %v to %v", m.typ, m.code, m.Src, m.Dst)
		}
		quoted := append(make([]byte, header.EthLen), m.payload...)
		header.PutEth(quoted, header.MAC{}, header.MAC{}, m.EtherType)
		var q header.Packet
		if why := header.Parse(&q, quoted, len(quoted)); why != header.OK {
			t.Fatalf("quoted packet: %v", why)
		}
		b := quoted[q.L4:q.End]
		if q.Src != tc.guest || q.Dst != tc.dst || be.Uint16(b[4:6]) != 4321 || be.Uint16(b[6:8]) != 7 {
			t.Errorf("quoted %v > %v, id %d, seq %d", q.Src, q.Dst, be.Uint16(b[4:6]), be.Uint16(b[6:8]))
		}
		// The flow goes on: the router itself answers.
		x.ping(tc.guest, tc.hop, 64, 4321, 8, pattern(32))
		if m := x.receive(); m.seq != 8 || m.Src != tc.hop {
			t.Errorf("got %+v", m)
		}
	}
}

// TestTooBig pings with more than the path takes: the guest learns the MTU, and
// a request that it may fragment arrives.
func TestTooBig(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	nstest.AddRouter(t, 1400)
	for _, tc := range []struct {
		guest, dst header.Addr
		typ, code  byte
	}{
		{guest4, addr(nstest.Far4), header.ICMPUnreachable, header.ICMPCodeFragNeeded},
		{guest6, addr(nstest.Far6), header.ICMPv6TooBig, 0},
	} {
		x := newWorld(t)
		typ := uint8(header.ICMPEchoRequest)
		if !tc.guest.Is4() {
			typ = header.ICMPv6EchoRequest
		}
		x.send(header.IP{Src: tc.guest, Dst: tc.dst, TTL: 64, DF: true}, typ, 5, 1, pattern(1440))
		m := x.receive()
		if m.typ != tc.typ || m.code != tc.code || m.seq != 1400 {
			t.Errorf("got type %d, code %d, MTU %d", m.typ, m.code, m.seq)
		}
		x.ping(tc.guest, tc.dst, 64, 5, 2, pattern(3000))
		if m := x.receive(); m.seq != 2 || len(m.payload) != 3000 {
			t.Errorf("got %+v", m.Packet)
		}
	}
}
