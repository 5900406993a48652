package arp

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

var (
	ourMAC   = header.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
	guestMAC = header.MAC{0x52, 0x54, 0, 0, 0, 1}
	nestMAC  = header.MAC{0x52, 0x54, 0, 0, 0, 2}
)

func addr(s string) header.Addr { return header.AddrFromNetip(netip.MustParseAddr(s)) }

func newResponder(t testing.TB) *Responder {
	t.Helper()
	r, err := New(Config{MAC: ourMAC, Addr: netip.MustParseAddr("10.0.0.1"), Guest: netip.MustParseAddr("10.0.0.5")})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask is a broadcast request of mac with the given addresses.
func ask(mac header.MAC, sender, target string) *packet {
	return &packet{dstMAC: header.Broadcast, op: opRequest, senderMAC: mac, sender: addr(sender), target: addr(target)}
}

func frameOf(p *packet) []byte { return appendPacket(nil, p) }

func TestHandleAnswersByTarget(t *testing.T) {
	tests := []struct {
		name string
		p    *packet
		want bool
	}{
		{"RFC 826 request for the gateway", ask(guestMAC, "10.0.0.5", "10.0.0.1"), true},
		{"RFC 826 request for a neighbour of the host", ask(guestMAC, "10.0.0.5", "10.0.0.77"), true},
		{"request for an address outside the subnet", ask(guestMAC, "10.0.0.5", "192.0.2.1"), true},
		{"request from a static address", ask(guestMAC, "172.16.0.9", "172.16.0.1"), true},
		{"RFC 3927 request for a link-local address", ask(guestMAC, "169.254.7.7", "169.254.1.1"), true},
		{"request for the assigned address", ask(nestMAC, "10.0.0.9", "10.0.0.5"), false},
		{"RFC 5227 2.1.1 probe for the assigned address", ask(guestMAC, "0.0.0.0", "10.0.0.5"), false},
		{"RFC 5227 2.1.1 probe for a static address", ask(guestMAC, "0.0.0.0", "10.0.0.99"), false},
		{"RFC 3927 2.2.1 probe for a link-local address", ask(guestMAC, "0.0.0.0", "169.254.9.9"), false},
		{"RFC 5227 2.4 probe for our own address", ask(guestMAC, "0.0.0.0", "10.0.0.1"), true},
		{"RFC 5227 2.3 announcement", ask(guestMAC, "10.0.0.5", "10.0.0.5"), false},
		{"RFC 5227 2.3 announcement of a static address", ask(guestMAC, "10.0.0.99", "10.0.0.99"), false},
		{"announcement of our own address", ask(guestMAC, "10.0.0.1", "10.0.0.1"), false},
		{"target 0.0.0.0", ask(guestMAC, "10.0.0.5", "0.0.0.0"), false},
		{"target in 0/8", ask(guestMAC, "10.0.0.5", "0.1.2.3"), false},
		{"RFC 1122 3.2.1.3 target loopback", ask(guestMAC, "10.0.0.5", "127.0.0.1"), false},
		{"RFC 1122 3.3.6 target multicast", ask(guestMAC, "10.0.0.5", "224.0.0.1"), false},
		{"target reserved", ask(guestMAC, "10.0.0.5", "240.0.0.1"), false},
		{"target broadcast", ask(guestMAC, "10.0.0.5", "255.255.255.255"), false},
		{"sender loopback", ask(guestMAC, "127.0.0.1", "10.0.0.1"), false},
		{"sender multicast", ask(guestMAC, "224.0.0.1", "10.0.0.1"), false},
		{"sender broadcast", ask(guestMAC, "255.255.255.255", "10.0.0.1"), false},
		{"sender hardware address is a group", ask(header.Broadcast, "10.0.0.5", "10.0.0.1"), false},
		{"sender hardware address is zero", ask(header.MAC{}, "10.0.0.5", "10.0.0.1"), false},
		{"sender hardware address is ours", ask(ourMAC, "10.0.0.5", "10.0.0.1"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply, ok := newResponder(t).Handle([]byte{1, 2, 3}, frameOf(tt.p))
			if ok != tt.want {
				t.Fatalf("answered = %v, want %v", ok, tt.want)
			}
			if !ok {
				if len(reply) != 3 {
					t.Errorf("dst has %d bytes, want the 3 it had", len(reply))
				}
				return
			}
			got, valid := parse(reply[3:])
			if !valid || len(reply[3:]) != minFrameBytes {
				t.Fatalf("reply of %d bytes, valid = %v", len(reply)-3, valid)
			}
			want := packet{
				dstMAC: tt.p.senderMAC, op: opReply,
				senderMAC: ourMAC, sender: tt.p.target,
				targetMAC: tt.p.senderMAC, target: tt.p.sender,
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(packet{})); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHandleRefusesOtherFrames(t *testing.T) {
	good := frameOf(ask(guestMAC, "10.0.0.5", "10.0.0.1"))
	edit := func(f func(b []byte)) []byte {
		b := append([]byte(nil), good...)
		f(b)
		return b
	}
	tests := []struct {
		name  string
		frame []byte
	}{
		{"empty", nil},
		{"one byte short", good[:header.EthLen+packetLen-1]},
		{"EtherType", edit(func(b []byte) { b[12] = 0x86 })},
		{"hardware type", edit(func(b []byte) { b[15] = 6 })},
		{"protocol type", edit(func(b []byte) { b[16] = 0x86 })},
		{"hardware length", edit(func(b []byte) { b[18] = 8 })},
		{"protocol length", edit(func(b []byte) { b[19] = 16 })},
		{"reply", edit(func(b []byte) { b[21] = opReply })},
		{"RARP operation", edit(func(b []byte) { b[21] = 3 })},
		{"RFC 1122 2.3.2.1 unicast poll of somebody else", edit(func(b []byte) { copy(b, nestMAC[:]) })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, ok := newResponder(t).Handle(nil, tt.frame); ok {
				t.Error("answered")
			}
		})
	}
	poll := edit(func(b []byte) { copy(b, ourMAC[:]) })
	if _, ok := newResponder(t).Handle(nil, poll[:header.EthLen+packetLen]); !ok {
		t.Error("RFC 1122 2.3.2.1 unicast poll, unpadded: not answered")
	}
}

func TestHandleLeavesNestedGuestsAlone(t *testing.T) {
	r := newResponder(t)
	r.Handle(nil, frameOf(ask(nestMAC, "10.0.0.20", "10.0.0.20"))) // announces itself
	if _, ok := r.Handle(nil, frameOf(ask(guestMAC, "10.0.0.5", "10.0.0.20"))); ok {
		t.Error("answered for a nested guest")
	}
	r.Handle(nil, frameOf(ask(nestMAC, "10.0.0.21", "10.0.0.1"))) // has moved
	if _, ok := r.Handle(nil, frameOf(ask(guestMAC, "10.0.0.5", "10.0.0.20"))); !ok {
		t.Error("not answered for an address that the guest has left")
	}
	r.Handle(nil, frameOf(ask(nestMAC, "10.0.0.1", "10.0.0.99"))) // takes our address
	if _, ok := r.Handle(nil, frameOf(ask(guestMAC, "10.0.0.5", "10.0.0.1"))); !ok {
		t.Error("a station in the guest took the gateway's address away")
	}
}

func TestStationsAreBounded(t *testing.T) {
	var s stations
	for i := range 2 * maxStations {
		s.learn(header.MAC{2, 0, 0, 0, 0, byte(i)}, header.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	if s.n != maxStations {
		t.Fatalf("%d stations, want %d", s.n, maxStations)
	}
	for i := range 2 * maxStations {
		a := header.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		if got, want := s.has(&a), i >= maxStations; got != want {
			t.Errorf("station %d known = %v, want %v", i, got, want)
		}
	}
}

func TestGuest(t *testing.T) {
	r := newResponder(t)
	if _, _, ok := r.Guest(); ok {
		t.Error("guest known before it has sent anything")
	}
	r.Handle(nil, frameOf(ask(guestMAC, "0.0.0.0", "10.0.0.5")))
	if mac, a, ok := r.Guest(); !ok || mac != guestMAC || a != (header.Addr{}) {
		t.Errorf("after a probe: %v %v %v", mac, a, ok)
	}
	r.Handle(nil, frameOf(&packet{
		dstMAC: ourMAC, op: opReply, senderMAC: guestMAC, sender: addr("10.0.0.6"),
		targetMAC: ourMAC, target: addr("10.0.0.1"),
	}))
	if mac, a, ok := r.Guest(); !ok || mac != guestMAC || a != addr("10.0.0.6") {
		t.Errorf("after a reply: %v %v %v", mac, a, ok)
	}
	r.Handle(nil, frameOf(ask(guestMAC, "0.0.0.0", "10.0.0.7")))
	if _, a, _ := r.Guest(); a != addr("10.0.0.6") {
		t.Errorf("a probe replaced the address by %v", a)
	}
}

func TestAppendRequest(t *testing.T) {
	r := newResponder(t)
	want := packet{dstMAC: header.Broadcast, op: opRequest, senderMAC: ourMAC, sender: addr("10.0.0.1"), target: addr("10.0.0.5")}
	for _, step := range []string{"10.0.0.5", "10.0.0.8"} {
		frame, ok := r.AppendRequest(nil)
		got, valid := parse(frame)
		want.target = addr(step)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(packet{})); diff != "" || !ok || !valid {
			t.Errorf("request for %s, ok = %v, valid = %v (-want +got):\n%s", step, ok, valid, diff)
		}
		r.Handle(nil, frameOf(ask(guestMAC, "10.0.0.8", "10.0.0.1")))
	}

	for _, c := range []Config{
		{MAC: ourMAC, Guest: netip.MustParseAddr("10.0.0.5")}, // would be a probe
		{MAC: ourMAC, Addr: netip.MustParseAddr("10.0.0.1")},  // nobody to ask for
		{MAC: ourMAC, Addr: netip.MustParseAddr("10.0.0.1"), Guest: netip.MustParseAddr("10.0.0.1")},
	} {
		r, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := r.AppendRequest(nil); ok || len(b) != 0 {
			t.Errorf("%+v: request appended", c)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{},
		{MAC: header.Broadcast},
		{MAC: ourMAC, Addr: netip.MustParseAddr("fe80::1")},
		{MAC: ourMAC, Guest: netip.MustParseAddr("2001:db8::1")},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("New(%+v) gave no error", c)
		}
	}
}

func TestHandleDoesNotAllocate(t *testing.T) {
	r, frame, dst := newResponder(t), frameOf(ask(guestMAC, "10.0.0.5", "10.0.0.1")), make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { r.Handle(dst, frame) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzARP(f *testing.F) {
	f.Add(frameOf(ask(guestMAC, "10.0.0.5", "10.0.0.1")))
	f.Add(frameOf(ask(guestMAC, "0.0.0.0", "10.0.0.5")))
	f.Add(frameOf(ask(guestMAC, "10.0.0.5", "10.0.0.5")))
	f.Add(frameOf(&packet{dstMAC: ourMAC, op: opReply, senderMAC: guestMAC, sender: addr("10.0.0.5")}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := newResponder(t)
		for range 2 {
			reply, ok := r.Handle(nil, frame)
			if !ok {
				continue
			}
			p, valid := parse(reply)
			if !valid || p.op != opReply || p.senderMAC != ourMAC || p.sender == addr("10.0.0.5") || p.dstMAC.IsMulticast() {
				t.Fatalf("bad reply %+v", p)
			}
		}
		r.AppendRequest(nil)
	})
}
