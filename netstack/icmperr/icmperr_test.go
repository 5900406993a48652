package icmperr

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
)

func TestFromQueue(t *testing.T) {
	icmp := func(typ, code uint8, info uint32) hostsock.QueuedError {
		return hostsock.QueuedError{Errno: hostsock.EHOSTUNREACH, Origin: hostsock.OriginICMP, Type: typ, Code: code, Info: info}
	}
	icmp6 := func(typ, code uint8, info uint32) hostsock.QueuedError {
		q := icmp(typ, code, info)
		q.Origin = hostsock.OriginICMPv6
		return q
	}
	local := func(errno hostsock.Errno, info uint32) hostsock.QueuedError {
		return hostsock.QueuedError{Errno: errno, Origin: hostsock.OriginLocal, Info: info}
	}
	for _, tc := range []struct {
		name string
		q    hostsock.QueuedError
		v6   bool
		want header.ICMPError
		ok   bool
	}{
		{"port unreachable", icmp(3, 3, 0), false, header.ICMPError{Type: 3, Code: 3}, true},
		{"fragmentation needed", icmp(3, 4, 1400), false, header.ICMPError{Type: 3, Code: 4, MTU: 1400}, true},
		{"time exceeded", icmp(11, 0, 0), false, header.ICMPError{Type: 11}, true},
		{"parameter problem", icmp(12, 0, 0), false, header.ICMPError{Type: 12}, true},
		{"redirect", icmp(5, 1, 0), false, header.ICMPError{}, false},
		{"source quench", icmp(4, 0, 0), false, header.ICMPError{}, false},
		{"v6 port", icmp6(1, 4, 0), true, header.ICMPError{Type: 1, Code: 4}, true},
		{"v6 too big", icmp6(2, 0, 1300), true, header.ICMPError{Type: 2, MTU: 1300}, true},
		{"v6 hop limit", icmp6(3, 0, 0), true, header.ICMPError{Type: 3}, true},
		{"v6 informational", icmp6(135, 0, 0), true, header.ICMPError{}, false},
		{"other family", icmp6(1, 4, 0), false, header.ICMPError{Type: 3, Code: 1}, true},
		{"other family, v6 guest", icmp(3, 3, 0), true, header.ICMPError{Type: 1, Code: 3}, true},
		{"local too big", local(hostsock.EMSGSIZE, 1400), false, header.ICMPError{Type: 3, Code: 4, MTU: 1400}, true},
		{"local v6 too big", local(hostsock.EMSGSIZE, 1400), true, header.ICMPError{Type: 2, MTU: 1400}, true},
		{"local v6 too big, below the minimum", local(hostsock.EMSGSIZE, 600), true, header.ICMPError{Type: 2, MTU: 1280}, true},
		{"local no route", local(hostsock.ENETUNREACH, 0), false, header.ICMPError{Type: 3, Code: 0}, true},
		{"local no memory", local(hostsock.ENOMEM, 0), false, header.ICMPError{}, false},
	} {
		got, ok := FromQueue(&tc.q, tc.v6)
		if ok != tc.ok || ok && got != tc.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", tc.name, got, ok, tc.want, tc.ok)
		}
	}
}

func TestPush(t *testing.T) {
	guest4, guest6 := header.AddrFrom4([4]byte{10, 0, 0, 9}), header.Addr{0: 0xfd, 15: 9}
	gate4, gate6 := header.AddrFrom4([4]byte{10, 0, 0, 1}), header.Addr{0: 0xfe, 1: 0x80, 15: 1}
	hop := header.AddrFrom4([4]byte{192, 0, 2, 7})
	l := &link.Link{Gateway4: gate4, OurLinkLocal: gate6}
	for _, tc := range []struct {
		to, from, want header.Addr
	}{
		{guest4, header.Addr{}, gate4},
		{guest4, hop, hop},
		{guest6, header.Addr{}, gate6},
	} {
		q := framequeue.New()
		g := ringtest.New(t, q, 4, 1536, true)
		e, _ := FromErrno(hostsock.ECONNREFUSED, !tc.to.Is4())
		if !Push(q, l, &tc.to, tc.from, e, make([]byte, 60)) {
			t.Fatal("refused")
		}
		q.Flush()
		if p := g.Parse(0); p.Src != tc.want || p.Dst != tc.to || p.Proto != header.ICMPProto(&tc.to) {
			t.Errorf("got %+v", p)
		}
	}
	if Push(framequeue.New(), &link.Link{}, &guest4, header.Addr{}, header.ICMPError{}, nil) {
		t.Error("error sent without an address of ours")
	}
}
