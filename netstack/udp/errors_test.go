package udp

import (
	"bytes"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/nstest"
)

// message checks that d is an ICMP message about a datagram of the guest, and
// returns its first eight bytes.
func (x *world) message(d arrived, src, dst header.Addr, sport, dport uint16) []byte {
	x.t.Helper()
	if d.Proto != header.ICMPProto(&src) || d.Dst != src {
		x.t.Fatalf("guest got %+v", d.Packet)
	}
	quoted := append(make([]byte, header.EthLen), d.data...)
	header.PutEth(quoted, header.MAC{}, header.MAC{}, d.EtherType)
	var q header.Packet
	if why := header.Parse(&q, quoted, len(quoted)); why != header.OK {
		x.t.Fatalf("quoted packet: %v", why)
	}
	if q.Src != src || q.Dst != dst || q.SrcPort != sport || q.DstPort != dport {
		x.t.Errorf("quoted %v:%d > %v:%d", q.Src, q.SrcPort, q.Dst, q.DstPort)
	}
	return x.guest.Frames[x.seen-1].Data[d.L4:]
}

// TestTraceroute sends a datagram with TTL 1 through a router.
func TestTraceroute(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	nstest.AddRouter(t, 1500)
	for _, tc := range []struct {
		guest, dst, hop header.Addr
		typ             byte
	}{
		{guest4, addr("198.51.100.1"), addr(nstest.Far4), header.ICMPTimeExceeded},
		{guest6, addr("2001:db8:99::1"), addr(nstest.Far6), header.ICMPv6TimeExceeded},
	} {
		x := newWorld(t)
		for port := uint16(33434); port < 33437; port++ {
			x.sendIP(header.IP{Src: tc.guest, Dst: tc.dst, Proto: header.ProtoUDP, TTL: 1}, 40000, port, pattern(32))
			d := x.receive()
			if b := x.message(d, tc.guest, tc.dst, 40000, port); b[0] != tc.typ || b[1] != 0 {
				t.Errorf("type %d, code %d", b[0], b[1])
			}
			if d.Src != tc.hop {
				t.Errorf("from %v, want the router %v", d.Src, tc.hop)
			}
		}
		if x.h.NumFlows() != 3 {
			t.Errorf("%d flows survived", x.h.NumFlows())
		}
	}
}

// TestPathMTU sends more than the path takes. With fragments forbidden the
// guest learns the MTU; otherwise the host makes them.
func TestPathMTU(t *testing.T) {
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
		ip := header.IP{Src: tc.guest, Dst: tc.dst, Proto: header.ProtoUDP, TTL: 64, DF: true}
		x.sendIP(ip, 40000, 9, pattern(1440))
		d := x.receive()
		b := x.message(d, tc.guest, tc.dst, 40000, 9)
		if b[0] != tc.typ || b[1] != tc.code || bytes.Equal(b[4:6], []byte{1, 1}) || int(b[6])<<8|int(b[7]) != 1400 {
			t.Errorf("message begins % x", b[:8])
		}
		if x.h.Counters.FromGuest != 0 {
			t.Error("datagram left though it may not be fragmented")
		}
		// The router has no server: the answer shows that it came whole.
		ip.DF = false
		x.sendIP(ip, 40000, 9, pattern(3000))
		if b := x.message(x.receive(), tc.guest, tc.dst, 40000, 9); b[0] == tc.typ && b[1] == tc.code {
			t.Errorf("datagram that may be fragmented: message begins % x", b[:8])
		}
		if x.h.Counters.FromGuest != 1 {
			t.Errorf("counters %+v", x.h.Counters)
		}
	}
}

// TestUnreachable has no route at all.
func TestUnreachable(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	x := newWorld(t)
	for _, tc := range []struct {
		guest, dst header.Addr
		typ, code  byte
	}{
		{guest4, addr("198.51.100.1"), header.ICMPUnreachable, header.ICMPCodeNet},
		{guest6, addr("2001:db8::1"), header.ICMPv6Unreachable, header.ICMPv6CodeNoRoute},
	} {
		x.send(tc.guest, tc.dst, 40000, 53, pattern(10))
		if b := x.message(x.receive(), tc.guest, tc.dst, 40000, 53); b[0] != tc.typ || b[1] != tc.code {
			t.Errorf("type %d, code %d", b[0], b[1])
		}
	}
	if x.h.NumFlows() != 0 {
		t.Errorf("%d flows", x.h.NumFlows())
	}
}

// TestMulticast lets a datagram to a group leave once, with the guest's TTL and
// without coming back.
func TestMulticast(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	nstest.AddRouter(t, 1500)
	x := newWorld(t)
	x.sendIP(header.IP{Src: guest4, Dst: addr("239.255.255.250"), Proto: header.ProtoUDP, TTL: 4}, 40000, 1900, pattern(100))
	x.sendIP(header.IP{Src: guest6, Dst: addr("ff15::1"), Proto: header.ProtoUDP, TTL: 4}, 40000, 1900, pattern(100))
	for range 3 {
		x.turn(10)
	}
	if c := x.h.Counters; c.FromGuest != 2 || c.NotCarried != 0 || len(x.guest.Frames) != 0 {
		t.Errorf("%d frames back, counters %+v", len(x.guest.Frames), c)
	}
}
