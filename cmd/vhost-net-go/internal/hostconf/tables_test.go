package hostconf

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"
)

var cmpNet = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func link(index uint32, name string, flags uint32) rtnetlink.LinkMessage {
	return rtnetlink.LinkMessage{Index: index, Flags: flags, Attributes: &rtnetlink.LinkAttributes{Name: name, MTU: 1400 + index}}
}

// address builds "192.0.2.5/24" or, point-to-point, "10.0.0.1 peer 10.0.0.2/32".
func address(index uint32, local, peer string, bits uint8, change ...func(*rtnetlink.AddressMessage)) rtnetlink.AddressMessage {
	m := rtnetlink.AddressMessage{Family: unix.AF_INET, Index: index, PrefixLength: bits, Attributes: &rtnetlink.AddressAttributes{}}
	l := net.ParseIP(local)
	if l.To4() == nil {
		m.Family = unix.AF_INET6
		m.Attributes.Address = l
	} else {
		m.Attributes.Local, m.Attributes.Address = l.To4(), l.To4()
	}
	if peer != "" {
		m.Attributes.Local, m.Attributes.Address = l, net.ParseIP(peer)
	}
	for _, f := range change {
		f(&m)
	}
	return m
}

func addrFlags(f uint32) func(*rtnetlink.AddressMessage) {
	return func(m *rtnetlink.AddressMessage) { m.Attributes.Flags = f }
}

func scope(s uint8) func(*rtnetlink.AddressMessage) {
	return func(m *rtnetlink.AddressMessage) { m.Scope = s }
}

// route builds a route of the main table; dst "" is the default route.
func route(af uint8, dst string, dev uint32, gw string, change ...func(*rtnetlink.RouteMessage)) rtnetlink.RouteMessage {
	m := rtnetlink.RouteMessage{Family: af, Table: unix.RT_TABLE_MAIN, Type: unix.RTN_UNICAST}
	if dst != "" {
		p := netip.MustParsePrefix(dst)
		m.DstLength = uint8(p.Bits())
		m.Attributes.Dst = p.Addr().AsSlice()
	}
	m.Attributes.OutIface = dev
	m.Attributes.Gateway = net.ParseIP(gw)
	for _, f := range change {
		f(&m)
	}
	return m
}

func metric(n uint32) func(*rtnetlink.RouteMessage) {
	return func(m *rtnetlink.RouteMessage) { m.Attributes.Priority = n }
}

func nexthop(dev uint32, gw string, weight int, flags uint8) rtnetlink.NextHop {
	return rtnetlink.NextHop{Hop: rtnetlink.RTNextHop{IfIndex: dev, Hops: uint8(weight - 1), Flags: flags}, Gateway: net.ParseIP(gw)}
}

func hops(list ...rtnetlink.NextHop) func(*rtnetlink.RouteMessage) {
	return func(m *rtnetlink.RouteMessage) { m.Attributes.Multipath = list }
}

var threeLinks = []rtnetlink.LinkMessage{link(1, "lo", unix.IFF_LOOPBACK|unix.IFF_UP), link(2, "eth0", unix.IFF_UP), link(3, "eth1", unix.IFF_UP)}

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func ip(s string) netip.Addr    { return netip.MustParseAddr(s) }

func TestFamily4(t *testing.T) {
	const v4 = unix.AF_INET
	addrs := []rtnetlink.AddressMessage{
		address(1, "127.0.0.1", "", 8, scope(unix.RT_SCOPE_HOST)),
		address(2, "192.0.2.5", "", 24), address(2, "192.0.2.6", "", 24),
		address(3, "198.51.100.7", "", 25),
	}
	eth0 := Family{Interface: "eth0", MTU: 1402, Addr: pfx("192.0.2.5/24"), DefaultRoute: true, Gateway: ip("192.0.2.1")}
	eth1 := Family{Interface: "eth1", MTU: 1403, Addr: pfx("198.51.100.7/25"), DefaultRoute: true, Gateway: ip("198.51.100.1")}
	tests := []struct {
		name   string
		iface  string
		addrs  []rtnetlink.AddressMessage
		routes []rtnetlink.RouteMessage
		want   Family
	}{
		{name: "nothing", want: Family{}},
		{
			name: "default route", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "198.51.100.0/25", 3, ""), route(v4, "", 2, "192.0.2.1")}, want: eth0,
		},
		{
			name: "lower metric wins", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 2, "192.0.2.1", metric(600)), route(v4, "", 3, "198.51.100.1", metric(100))}, want: eth1,
		},
		{
			name: "link down comes last", addrs: addrs,
			routes: []rtnetlink.RouteMessage{
				route(v4, "", 2, "192.0.2.1", metric(1), func(m *rtnetlink.RouteMessage) { m.Flags = unix.RTNH_F_LINKDOWN }),
				route(v4, "", 3, "198.51.100.1", metric(600)),
			}, want: eth1,
		},
		{
			name: "heaviest hop", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 0, "", hops(nexthop(2, "192.0.2.1", 1, 0), nexthop(3, "198.51.100.1", 5, 0)))}, want: eth1,
		},
		{
			name: "first of equal hops", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 0, "", hops(nexthop(2, "192.0.2.1", 3, 0), nexthop(3, "198.51.100.1", 3, 0)))}, want: eth0,
		},
		{
			name: "dead hop", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 0, "", hops(nexthop(2, "192.0.2.1", 9, unix.RTNH_F_DEAD), nexthop(3, "198.51.100.1", 1, 0)))}, want: eth1,
		},
		{
			name: "asked interface", iface: "eth1", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 2, "192.0.2.1"), route(v4, "", 3, "198.51.100.1", metric(900))}, want: eth1,
		},
		{
			name: "asked interface without routes", iface: "eth1", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 2, "192.0.2.1")},
			want:   Family{Interface: "eth1", MTU: 1403, Addr: pfx("198.51.100.7/25")},
		},
		{
			name: "no default route", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "127.0.0.0/8", 1, ""), route(v4, "198.51.100.0/25", 3, "")},
			want:   Family{Interface: "eth1", MTU: 1403, Addr: pfx("198.51.100.7/25")},
		},
		{
			name:   "tunnel without gateway",
			addrs:  []rtnetlink.AddressMessage{address(3, "10.9.0.2", "10.9.0.1", 32)},
			routes: []rtnetlink.RouteMessage{route(v4, "", 3, "")},
			want:   Family{Interface: "eth1", MTU: 1403, Addr: pfx("10.9.0.2/32"), Peer: ip("10.9.0.1"), DefaultRoute: true},
		},
		{
			name: "gateway of the other family", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 2, "", func(m *rtnetlink.RouteMessage) {
				m.Attributes.Via = &rtnetlink.RouteVia{Family: unix.AF_INET6, Addr: net.ParseIP("fe80::1")}
			})},
			want: Family{Interface: "eth0", MTU: 1402, Addr: pfx("192.0.2.5/24"), DefaultRoute: true},
		},
		{
			name: "preferred source on another interface", addrs: append(addrs, address(1, "203.0.113.9", "", 32)),
			routes: []rtnetlink.RouteMessage{route(v4, "", 2, "192.0.2.1", func(m *rtnetlink.RouteMessage) { m.Attributes.Src = net.ParseIP("203.0.113.9") })},
			want:   Family{Interface: "eth0", MTU: 1402, Addr: pfx("203.0.113.9/32"), DefaultRoute: true, Gateway: ip("192.0.2.1")},
		},
		{
			name:   "route without address",
			routes: []rtnetlink.RouteMessage{route(v4, "", 2, "192.0.2.1")},
			want:   Family{Interface: "eth0", MTU: 1402, DefaultRoute: true, Gateway: ip("192.0.2.1")},
		},
		{
			name: "other tables and blackholes do not count", addrs: addrs,
			routes: []rtnetlink.RouteMessage{
				route(v4, "", 2, "192.0.2.1", func(m *rtnetlink.RouteMessage) { m.Attributes.Table = 51820 }),
				route(v4, "", 2, "", func(m *rtnetlink.RouteMessage) { m.Type = unix.RTN_BLACKHOLE }),
			}, want: Family{},
		},
		{
			name: "interface that is gone", addrs: addrs,
			routes: []rtnetlink.RouteMessage{route(v4, "", 9, "192.0.2.1")}, want: Family{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := tables{links: threeLinks, addrs: tt.addrs, routes: tt.routes}
			if d := cmp.Diff(tt.want, tab.family(v4, tt.iface), cmpNet, cmp.Comparer(samePrefix)); d != "" {
				t.Fatalf("family (-want +got):\n%s", d)
			}
		})
	}
}

func samePrefix(a, b netip.Prefix) bool { return a == b }

func TestFamily6ChoosesLastingGlobalAddress(t *testing.T) {
	const v6 = unix.AF_INET6
	routes := []rtnetlink.RouteMessage{route(v6, "fe80::/64", 2, ""), route(v6, "", 2, "fe80::aa")}
	tests := []struct {
		name  string
		addrs []rtnetlink.AddressMessage
		want  netip.Prefix
	}{
		{"link-local only", []rtnetlink.AddressMessage{address(2, "fe80::5", "", 64, scope(unix.RT_SCOPE_LINK))}, netip.Prefix{}},
		{"temporary before stable", []rtnetlink.AddressMessage{
			address(2, "2001:db8::99", "", 64, addrFlags(unix.IFA_F_TEMPORARY)), address(2, "2001:db8::5", "", 64),
		}, pfx("2001:db8::5/64")},
		{"deprecated before fresh", []rtnetlink.AddressMessage{
			address(2, "2001:db8::99", "", 64, addrFlags(unix.IFA_F_DEPRECATED)), address(2, "2001:db8:1::5", "", 64),
		}, pfx("2001:db8:1::5/64")},
		{"duplicate is unusable", []rtnetlink.AddressMessage{address(2, "2001:db8::99", "", 64, addrFlags(unix.IFA_F_DADFAILED))}, netip.Prefix{}},
		{"tentative is better than none", []rtnetlink.AddressMessage{address(2, "2001:db8::9", "", 64, addrFlags(unix.IFA_F_TENTATIVE))}, pfx("2001:db8::9/64")},
		{"prefix of 128 bits", []rtnetlink.AddressMessage{address(2, "2001:db8::9", "", 128)}, pfx("2001:db8::9/128")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tables{links: threeLinks, addrs: tt.addrs, routes: routes}.family(v6, "")
			want := Family{Interface: "eth0", MTU: 1402, Addr: tt.want, DefaultRoute: true, Gateway: ip("fe80::aa")}
			if got != want {
				t.Fatalf("family = %+v, want %+v", got, want)
			}
		})
	}
	if got := (tables{links: threeLinks, routes: routes[:1]}).family(v6, ""); got != (Family{}) {
		t.Errorf("a link-local route alone gave %+v", got)
	}
}
