package addrmap

import (
	"net/netip"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func addr(s string) header.Addr {
	if s == "" {
		return header.Addr{}
	}
	return header.AddrFromNetip(ip(s))
}

func newMap(t testing.TB, c Config) *Map {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var (
	closed = Config{
		Own:   Pair{V4: ip("10.0.0.1"), V6: ip("fe80::1")},
		Guest: Pair{V4: ip("10.0.0.5"), V6: ip("2001:db8::5")},
	}
	open = Config{
		Own:          closed.Own,
		Guest:        closed.Guest,
		HostLoopback: Pair{V4: ip("10.0.0.1"), V6: ip("fe80::1")},
		HostGuest:    Pair{V4: ip("10.0.0.2"), V6: ip("fe80::2")},
		DNS: []Forward{
			{Seen: ip("10.0.0.1"), Host: ip("127.0.0.53")},
			{Seen: ip("fe80::53"), Host: ip("192.0.2.53")},
		},
	}
)

// packet is a parsed packet from guest to host. An IPv6 packet can name the
// same 16 bytes as an IPv4 one, so v6 is set apart.
func packet(v6 bool, src, dst header.Addr, proto uint8, port uint16) *header.Packet {
	p := &header.Packet{Src: src, Dst: dst, V6: v6, Proto: proto, DstPort: port, EtherType: header.EtherTypeIPv4}
	if v6 {
		p.EtherType = header.EtherTypeIPv6
	}
	return p
}

func TestFromGuestMaps(t *testing.T) {
	const tcp, udp, icmp = header.ProtoTCP, header.ProtoUDP, header.ProtoICMP
	tests := []struct {
		name  string
		c     Config
		dst   string
		proto uint8
		port  uint16
		want  string
	}{
		{"others are kept", closed, "192.0.2.7", tcp, 80, "192.0.2.7"},
		{"the gateway is kept by default", closed, "10.0.0.1", tcp, 9090, "10.0.0.1"},
		{"our link-local is kept by default", closed, "fe80::1", tcp, 9090, "fe80::1"},
		{"the assigned address is kept", closed, "10.0.0.5", tcp, 80, "10.0.0.5"},
		{"no DNS forward by default", closed, "10.0.0.1", udp, 53, "10.0.0.1"},
		{"host loopback v4", open, "10.0.0.1", tcp, 9090, "127.0.0.1"},
		{"host loopback v6", open, "fe80::1", tcp, 9090, "::1"},
		{"host loopback for echo", open, "10.0.0.1", icmp, 0, "127.0.0.1"},
		{"host's guest address v4", open, "10.0.0.2", udp, 9090, "10.0.0.5"},
		{"host's guest address v6", open, "fe80::2", udp, 9090, "2001:db8::5"},
		{"DNS by UDP comes first", open, "10.0.0.1", udp, 53, "127.0.0.53"},
		{"DNS by TCP comes first", open, "10.0.0.1", tcp, 53, "127.0.0.53"},
		{"DNS over TLS comes first", open, "10.0.0.1", tcp, 853, "127.0.0.53"},
		{"DNS between families", open, "fe80::53", udp, 53, "192.0.2.53"},
		{"DNS address, other port", open, "fe80::53", udp, 54, "fe80::53"},
		{"DNS address, other protocol", open, "fe80::53", header.ProtoICMPv6, 53, "fe80::53"},
		{"broadcast by UDP is left to the caller", open, "255.255.255.255", udp, 9, "255.255.255.255"},
		{"multicast by UDP is left to the caller", open, "239.1.2.3", udp, 9, "239.1.2.3"},
		{"IPv6 multicast by UDP is left to the caller", open, "ff02::fb", udp, 5353, "ff02::fb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v6 := ip(tt.dst).Is6()
			src := addr("10.0.0.5")
			if v6 {
				src = addr("2001:db8::5")
			}
			got, why := newMap(t, tt.c).FromGuest(packet(v6, src, addr(tt.dst), tt.proto, tt.port))
			if got != addr(tt.want) || why != OK {
				t.Errorf("got %v (%v), want %s", got, why, tt.want)
			}
		})
	}
}

func TestFromGuestDNSFragment(t *testing.T) {
	p := packet(false, addr("10.0.0.5"), addr("10.0.0.1"), header.ProtoUDP, 53)
	p.FragMore = true
	if got, _ := newMap(t, open).FromGuest(p); got != addr("127.0.0.1") {
		t.Errorf("a fragment, whose ports mean nothing, went to %v", got)
	}
}

func TestFromGuestDropsMartians(t *testing.T) {
	const g4, g6 = "10.0.0.5", "2001:db8::5"
	tests := []struct {
		name     string
		v6       bool
		src, dst string
		want     Verdict
	}{
		{"RFC 1122 3.2.1.3 (g) destination 127.0.0.1", false, g4, "127.0.0.1", DstLoopback},
		{"RFC 1122 3.2.1.3 (g) destination 127.255.255.254", false, g4, "127.255.255.254", DstLoopback},
		{"RFC 1122 3.2.1.3 (a) destination 0.0.0.0", false, g4, "0.0.0.0", DstUnspecified},
		{"RFC 6890 destination in 0/8", false, g4, "0.1.2.3", DstUnspecified},
		{"RFC 6890 destination in 240/4", false, g4, "240.0.0.1", DstReserved},
		{"RFC 6890 destination below broadcast", false, g4, "255.255.255.254", DstReserved},
		{"RFC 9293 3.9.2.3 TCP to broadcast", false, g4, "255.255.255.255", DstNotUnicast},
		{"RFC 9293 3.9.2.3 TCP to multicast", false, g4, "224.0.0.1", DstNotUnicast},
		{"RFC 9293 3.9.2.3 TCP to IPv6 multicast", true, g6, "ff02::1", DstNotUnicast},
		{"RFC 4291 2.5.3 destination ::1", true, g6, "::1", DstLoopback},
		{"RFC 4291 2.5.2 destination ::", true, g6, "::", DstUnspecified},
		{"RFC 6890 destination ::ffff:127.0.0.1", true, g6, "::ffff:127.0.0.1", DstEmbedded},
		{"RFC 6890 destination ::ffff:192.0.2.1", true, g6, "::ffff:192.0.2.1", DstEmbedded},
		{"RFC 4291 2.5.5.1 destination ::127.0.0.1", true, g6, "::7f00:1", DstEmbedded},
		{"RFC 1122 3.2.1.3 (g) source 127.0.0.1", false, "127.0.0.1", "192.0.2.1", SrcLoopback},
		{"RFC 1122 3.2.1.3 (a) source 0.0.0.0", false, "0.0.0.0", "192.0.2.1", SrcUnspecified},
		{"RFC 1122 3.2.1.3 (c) source broadcast", false, "255.255.255.255", "192.0.2.1", SrcNotUnicast},
		{"RFC 1112 7.2 source multicast", false, "224.0.0.251", "192.0.2.1", SrcNotUnicast},
		{"RFC 6890 source in 240/4", false, "250.1.1.1", "192.0.2.1", SrcReserved},
		{"RFC 4291 2.5.3 source ::1", true, "::1", "2001:db8::1", SrcLoopback},
		{"RFC 4291 2.5.2 source ::", true, "::", "2001:db8::1", SrcUnspecified},
		{"RFC 4291 2.7 source multicast", true, "ff02::1", "2001:db8::1", SrcNotUnicast},
		{"RFC 6890 source ::ffff:10.0.0.5", true, "::ffff:10.0.0.5", "2001:db8::1", SrcEmbedded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []Config{closed, open} {
				p := packet(tt.v6, addr(tt.src), addr(tt.dst), header.ProtoTCP, 80)
				got, why := newMap(t, c).FromGuest(p)
				if why != tt.want || got != (header.Addr{}) {
					t.Errorf("got %v (%v), want verdict %v", got, why, tt.want)
				}
			}
		})
	}
}

func TestToGuest(t *testing.T) {
	noOwn := Config{Guest: closed.Guest}
	tests := []struct {
		name       string
		c          Config
		peer, last string
		want       string
		why        Verdict
	}{
		{"others are kept", closed, "192.0.2.7", "10.0.0.5", "192.0.2.7", OK},
		{"link-local peer is kept", closed, "fe80::77", "fe80::5", "fe80::77", OK},
		{"127.0.0.1 becomes the gateway", closed, "127.0.0.1", "10.0.0.5", "10.0.0.1", OK},
		{"127.1.2.3 becomes the gateway", open, "127.1.2.3", "10.0.0.5", "10.0.0.1", OK},
		{"::1 becomes our link-local", closed, "::1", "fe80::5", "fe80::1", OK},
		{"127.0.0.1 becomes the mapped address", Config{
			Own: closed.Own, HostLoopback: Pair{V4: ip("10.0.0.9")},
		}, "127.0.0.1", "10.0.0.5", "10.0.0.9", OK},
		{"127.0.0.2 is not the mapped one", Config{
			Own: closed.Own, HostLoopback: Pair{V4: ip("10.0.0.9")},
		}, "127.0.0.2", "10.0.0.5", "10.0.0.1", OK},
		{"unspecified", closed, "0.0.0.0", "10.0.0.5", "10.0.0.1", OK},
		{"the guest's own address becomes the gateway", closed, "10.0.0.5", "10.0.0.5", "10.0.0.1", OK},
		{"the guest's own address becomes the mapped one", open, "10.0.0.5", "10.0.0.5", "10.0.0.2", OK},
		{"the guest's own address v6 becomes the mapped one", open, "2001:db8::5", "", "fe80::2", OK},
		{"the address that the guest uses becomes the gateway", open, "10.0.0.77", "10.0.0.77", "10.0.0.1", OK},
		{"unknown guest", closed, "127.0.0.1", "", "10.0.0.1", OK},
		{"loopback without an address of ours", noOwn, "127.0.0.1", "10.0.0.5", "", NoSubstitute},
		{"loopback v6 without an address of ours", noOwn, "::1", "", "", NoSubstitute},
		{"the guest took our address", closed, "127.0.0.1", "10.0.0.1", "", NoSubstitute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			peer, last := addr(tt.peer), addr(tt.last)
			got, why := newMap(t, tt.c).ToGuest(&peer, &last)
			if got != addr(tt.want) || why != tt.why {
				t.Errorf("got %v (%v), want %s (%v)", got, why, tt.want, tt.why)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name string
		c    Config
	}{
		{"IPv6 in a V4 field", Config{Own: Pair{V4: ip("fe80::1")}}},
		{"IPv4 in a V6 field", Config{Guest: Pair{V6: ip("10.0.0.1")}}},
		{"loopback as seen by the guest", Config{HostLoopback: Pair{V4: ip("127.0.0.1")}}},
		{"multicast as seen by the guest", Config{HostGuest: Pair{V6: ip("ff02::1")}}},
		{"unspecified", Config{Own: Pair{V4: ip("0.0.0.0")}}},
		{"one address mapped twice", Config{
			HostLoopback: Pair{V4: ip("10.0.0.1")}, HostGuest: Pair{V4: ip("10.0.0.1")},
		}},
		{"DNS without host", Config{DNS: []Forward{{Seen: ip("10.0.0.1")}}}},
		{"DNS without seen", Config{DNS: []Forward{{Host: ip("10.0.0.1")}}}},
		{"DNS to nowhere", Config{DNS: []Forward{{Seen: ip("10.0.0.1"), Host: ip("0.0.0.0")}}}},
		{"DNS on a loopback address", Config{DNS: []Forward{{Seen: ip("::1"), Host: ip("192.0.2.1")}}}},
		{"two DNS forwards of an address", Config{DNS: []Forward{
			{Seen: ip("10.0.0.1"), Host: ip("192.0.2.1")}, {Seen: ip("10.0.0.1"), Host: ip("192.0.2.2")},
		}}},
		{"too many DNS forwards", Config{DNS: manyForwards(MaxDNS + 1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.c); err == nil {
				t.Error("no error")
			}
		})
	}
	if _, err := New(Config{DNS: []Forward{{}}}); err != nil {
		t.Errorf("an empty forward is off: %v", err)
	}
}

func manyForwards(n int) (list []Forward) {
	for seen := ip("10.0.0.1"); len(list) < n; seen = seen.Next() {
		list = append(list, Forward{Seen: seen, Host: ip("192.0.2.1")})
	}
	return list
}

func TestManyForwards(t *testing.T) {
	m, err := New(Config{DNS: append(manyForwards(MaxDNS), Forward{Seen: ip("fd00::1"), Host: ip("::1")})})
	if err != nil {
		t.Fatal(err)
	}
	for dst, want := range map[string]string{
		"10.0.0.1": "192.0.2.1", "10.0.0.16": "192.0.2.1", "10.0.0.17": "10.0.0.17", "fd00::1": "::1", "fd00::2": "fd00::2",
	} {
		src := ip("10.0.0.99")
		if ip(dst).Is6() {
			src = ip("fd00::99")
		}
		p := header.Packet{
			V6: ip(dst).Is6(), Proto: header.ProtoUDP, DstPort: 53,
			Src: header.AddrFromNetip(src), Dst: header.AddrFromNetip(ip(dst)),
		}
		if got, why := m.FromGuest(&p); why != OK || got != header.AddrFromNetip(ip(want)) {
			t.Errorf("%s: got %v (%v), want %s", dst, got, why, want)
		}
	}
}

func TestVerdictString(t *testing.T) {
	seen := map[string]bool{}
	for v := range NumVerdicts {
		if s := v.String(); s == "" || seen[s] {
			t.Errorf("verdict %d has the name %q", v, s)
		} else {
			seen[s] = true
		}
	}
	if s := NumVerdicts.String(); s != "unknown verdict" {
		t.Errorf("got %q", s)
	}
}

func TestMapDoesNotAllocate(t *testing.T) {
	m := newMap(t, open)
	p := packet(false, addr("10.0.0.5"), addr("10.0.0.1"), header.ProtoUDP, 53)
	peer, last := addr("127.0.0.1"), addr("10.0.0.5")
	if n := testing.AllocsPerRun(100, func() {
		m.FromGuest(p)
		m.ToGuest(&peer, &last)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFromGuest(b *testing.B) {
	m := newMap(b, open)
	p := packet(true, addr("2001:db8::5"), addr("2001:db8::7"), header.ProtoTCP, 443)
	for b.Loop() {
		m.FromGuest(p)
	}
}

// FuzzFromGuest checks the one promise that security rests on: nothing but a
// configured mapping leads to a loopback or unspecified address.
func FuzzFromGuest(f *testing.F) {
	f.Add(false, []byte{15: 1}, []byte{10: 0xff, 11: 0xff, 12: 127, 15: 1})
	f.Add(true, []byte{0: 0x20, 15: 1}, []byte{10: 0xff, 11: 0xff, 12: 127, 15: 1})
	f.Add(true, []byte{0: 0x20, 15: 1}, []byte{15: 1})
	f.Add(true, []byte{0: 0x20, 15: 1}, []byte{0: 0xfe, 1: 0x80, 15: 1})
	m := newMap(f, closed)
	f.Fuzz(func(t *testing.T, v6 bool, src, dst []byte) {
		var s, d header.Addr
		copy(s[:], src)
		copy(d[:], dst)
		if !v6 { // Parse makes v4-mapped ones
			s, d = header.AddrFrom4(s.As4()), header.AddrFrom4(d.As4())
		}
		got, why := m.FromGuest(packet(v6, s, d, header.ProtoTCP, 80))
		if n := got.Netip(); why == OK && (n.IsLoopback() || n.IsUnspecified() || n.IsMulticast() || got != d) {
			t.Fatalf("%v to %v was let through to %v", s, d, got)
		}
	})
}
