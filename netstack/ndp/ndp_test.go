package ndp

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mdlayher/ndp"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

var (
	ourMAC   = header.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
	guestMAC = header.MAC{0x52, 0x54, 0, 0, 0, 1}
	nestMAC  = header.MAC{0x52, 0x54, 0, 0, 0, 2}
	ourLL    = ip("fe80::9855:9aff:fe55:9a55")
	guestLL  = ip("fe80::5054:ff:fe00:1")
	assigned = ip("2001:db8::5")
	cmpAddr  = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func newResponder(t testing.TB, edit func(*Config)) *Responder {
	t.Helper()
	c := Config{MAC: ourMAC, Guest: assigned, Prefix: netip.MustParsePrefix("2001:db8::/64")}
	if edit != nil {
		edit(&c)
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// group returns the solicited-node address of a.
func group(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 2, 11: 1, 12: 0xff, 13: b[13], 14: b[14], 15: b[15]})
}

// frame is a guest's message in an Ethernet frame.
func frame(t testing.TB, mac header.MAC, src, dst netip.Addr, m ndp.Message) []byte {
	t.Helper()
	body, err := ndp.MarshalMessage(m)
	if err != nil {
		t.Fatal(err)
	}
	dstMAC := ourMAC
	if b := dst.As16(); b[0] == 0xff {
		dstMAC = header.MAC{0x33, 0x33, b[12], b[13], b[14], b[15]}
	}
	return appendFrame(nil, ends{srcMAC: mac, dstMAC: dstMAC, src: src, dst: dst}, body)
}

func sourceLL(mac header.MAC) []ndp.Option {
	return []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: net.HardwareAddr(mac[:])}}
}

func targetLL(mac header.MAC) []ndp.Option {
	return []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: net.HardwareAddr(mac[:])}}
}

func ns(t testing.TB, src, target netip.Addr) []byte {
	t.Helper()
	m := &ndp.NeighborSolicitation{TargetAddress: target}
	if !src.IsUnspecified() {
		m.Options = sourceLL(guestMAC)
	}
	return frame(t, guestMAC, src, group(target), m)
}

func rs(t testing.TB, src netip.Addr) []byte {
	t.Helper()
	m := &ndp.RouterSolicitation{}
	if !src.IsUnspecified() {
		m.Options = sourceLL(guestMAC)
	}
	return frame(t, guestMAC, src, ip("ff02::2"), m)
}

// sent is a frame of ours, taken apart by other code than ours.
type sent struct {
	DstMAC   header.MAC
	Src, Dst netip.Addr
	Msg      ndp.Message
}

func decode(t testing.TB, frame []byte) sent {
	t.Helper()
	var p header.Packet
	if why := header.Parse(&p, frame[:min(len(frame), header.MaxHeaders)], len(frame)); why != header.OK {
		t.Fatalf("our frame: %v", why)
	}
	if p.End != len(frame) || p.SrcMAC != ourMAC || p.TTL != 255 || p.Proto != header.ProtoICMPv6 {
		t.Fatalf("our frame: %+v", p)
	}
	b := frame[p.L4:p.End]
	if s := header.Sum(b, header.PseudoSum(&p.Src, &p.Dst, header.ProtoICMPv6, uint32(len(b)))); s != 0xffff {
		t.Fatal("our frame: bad ICMPv6 checksum")
	}
	m, err := ndp.ParseMessage(b)
	if err != nil {
		t.Fatalf("our frame: %v", err)
	}
	return sent{DstMAC: p.DstMAC, Src: netip.AddrFrom16(p.Src), Dst: netip.AddrFrom16(p.Dst), Msg: m}
}

func TestSolicitationsAnswered(t *testing.T) {
	unspecified := netip.IPv6Unspecified()
	tests := []struct {
		name     string
		frame    []byte
		want     bool
		override bool
	}{
		{"RFC 4861 7.2.4 the router itself", ns(t, guestLL, ourLL), true, true},
		{"RFC 4861 7.2.8 a neighbour of the host", ns(t, assigned, ip("2001:db8::77")), true, false},
		{"RFC 4861 7.2.8 a link-local neighbour", ns(t, guestLL, ip("fe80::77")), true, false},
		{"the assigned address", ns(t, guestLL, assigned), false, false},
		{"the sender's own address", ns(t, guestLL, guestLL), false, false},
		{"RFC 4862 5.4.3 DAD for the assigned address", ns(t, unspecified, assigned), false, false},
		{"RFC 4862 5.4.3 DAD for a temporary address", ns(t, unspecified, ip("2001:db8::1234")), false, false},
		{"RFC 4862 5.4.3 DAD for the router's address", ns(t, unspecified, ourLL), false, false},
		{"RFC 4861 7.1.1 target multicast", ns(t, guestLL, ip("ff02::1")), false, false},
		{"target loopback", ns(t, guestLL, ip("::1")), false, false},
		{"target unspecified", ns(t, guestLL, unspecified), false, false},
		{"source multicast", ns(t, ip("ff02::5"), ourLL), false, false},
		{"source loopback", ns(t, ip("::1"), ourLL), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply, ok := newResponder(t, nil).Handle([]byte{1}, tt.frame)
			if ok != tt.want || !ok && len(reply) != 1 {
				t.Fatalf("answered = %v with %d bytes, want %v", ok, len(reply), tt.want)
			}
			if !ok {
				return
			}
			in, _ := parse(tt.frame)
			want := sent{DstMAC: guestMAC, Src: ourLL, Dst: in.src, Msg: &ndp.NeighborAdvertisement{
				Router: true, Solicited: true, Override: tt.override,
				TargetAddress: in.target, Options: targetLL(ourMAC),
			}}
			if diff := cmp.Diff(want, decode(t, reply[1:]), cmpAddr); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInputChecks(t *testing.T) {
	good := ns(t, guestLL, ourLL)
	const icmp = header.EthLen + header.IPv6Len
	// edit changes a good solicitation and repairs length and checksum.
	edit := func(f func(b []byte) []byte) []byte {
		b := f(append([]byte(nil), good...))
		be.PutUint16(b[18:20], uint16(len(b)-icmp))
		src, dst := header.Addr(b[22:38]), header.Addr(b[38:54])
		be.PutUint16(b[icmp+2:], 0)
		sum := header.PseudoSum(&src, &dst, header.ProtoICMPv6, uint32(len(b)-icmp))
		be.PutUint16(b[icmp+2:], ^header.Sum(b[icmp:], sum))
		return b
	}
	at := func(i int, v byte) []byte {
		return edit(func(b []byte) []byte { b[i] = v; return b })
	}
	tests := []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"unchanged", edit(func(b []byte) []byte { return b }), true},
		{"RFC 4861 7.1.1 hop limit 254", at(21, 254), false},
		{"RFC 4861 7.1.1 code 1", at(icmp+1, 1), false},
		{"RFC 4861 7.1.1 checksum", func() []byte {
			b := append([]byte(nil), good...)
			b[icmp+3]++
			return b
		}(), false},
		{"RFC 4861 7.1.1 shorter than 24 bytes", edit(func(b []byte) []byte { return b[:icmp+23] }), false},
		{"RFC 4861 7.1.1 no options", edit(func(b []byte) []byte { return b[:icmp+24] }), true},
		{"RFC 4861 7.1.1 option of length 0", at(icmp+25, 0), false},
		{"option beyond the end", at(icmp+25, 2), false},
		{"half an option head", edit(func(b []byte) []byte { return append(b, 1) }), false},
		{"RFC 4861 7.1.1 unknown option", at(icmp+24, 200), true},
		{"option that the library cannot decode", edit(func(b []byte) []byte {
			return append(b, 31, 1, 0, 0, 0, 0, 0, 0)
		}), true},
		{"RFC 4861 7.1.1 source address option from ::", edit(func(b []byte) []byte {
			clear(b[22:38])
			return b
		}), false},
		{"RFC 4861 7.1.1 from :: to a unicast address", edit(func(b []byte) []byte {
			clear(b[22:38])
			copy(b[38:54], ourLL.AsSlice())
			return b[:icmp+24]
		}), false},
		{"RFC 6980 5 behind an extension header", edit(func(b []byte) []byte {
			b[20] = header.ProtoDestOpts
			opts := []byte{header.ProtoICMPv6, 0, 1, 4, 0, 0, 0, 0}
			return append(b[:icmp:icmp], append(opts, b[icmp:]...)...)
		}), false},
		{"frame to another station", at(0, 0x52), false},
		{"frame from a group address", at(6, 0x53), false},
		{"RFC 2464 padding behind the packet", append(append([]byte(nil), good...), 0, 0, 0), true},
		{"redirect", at(icmp, 137), false},
		{"echo", at(icmp, 128), false},
		{"empty", nil, false},
		{"cut", good[:60], false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, ok := newResponder(t, nil).Handle(nil, tt.frame); ok != tt.want {
				t.Errorf("answered = %v, want %v", ok, tt.want)
			}
		})
	}
}

func TestNestedGuestsAreLeftAlone(t *testing.T) {
	r := newResponder(t, nil)
	nested := ip("2001:db8::20")
	dad := frame(t, nestMAC, netip.IPv6Unspecified(), group(nested), &ndp.NeighborSolicitation{TargetAddress: nested})
	r.Handle(nil, dad)
	if _, ok := r.Handle(nil, ns(t, guestLL, nested)); ok {
		t.Error("answered for a nested guest")
	}
	r.Handle(nil, frame(t, nestMAC, ourLL, allNodes, &ndp.NeighborAdvertisement{TargetAddress: ourLL}))
	if _, ok := r.Handle(nil, ns(t, guestLL, ourLL)); !ok {
		t.Error("a station in the guest took the router's address away")
	}
}

func TestClaimedIsBounded(t *testing.T) {
	var n neighbors
	a := ip("2001:db8::")
	for range 2 * maxClaimed {
		a = a.Next()
		n.claim(a)
		n.claim(a)
	}
	if n.n != maxClaimed || !n.has(a) || n.has(ip("2001:db8::1")) {
		t.Errorf("%d claims, newest known = %v, oldest known = %v", n.n, n.has(a), n.has(ip("2001:db8::1")))
	}
}

func TestGuestIsLearned(t *testing.T) {
	r := newResponder(t, nil)
	if _, _, _, ok := r.Guest(); ok {
		t.Error("guest known before it has sent anything")
	}
	r.Handle(nil, ns(t, netip.IPv6Unspecified(), guestLL))
	if mac, ll, global, ok := r.Guest(); !ok || mac != guestMAC || ll.IsValid() || global.IsValid() {
		t.Errorf("after DAD: %v %v %v %v", mac, ll, global, ok)
	}
	r.Handle(nil, rs(t, guestLL))
	r.Handle(nil, frame(t, guestMAC, guestLL, ourLL, &ndp.NeighborAdvertisement{
		Solicited: true, TargetAddress: ip("2001:db8::99"), Options: targetLL(nestMAC),
	}))
	if mac, ll, global, _ := r.Guest(); mac != nestMAC || ll != guestLL || global != ip("2001:db8::99") {
		t.Errorf("after an advertisement: %v %v %v", mac, ll, global)
	}
	r.Handle(nil, frame(t, guestMAC, ip("2001:db8::66"), allNodes, &ndp.NeighborAdvertisement{
		Solicited: true, TargetAddress: ip("2001:db8::66"),
	}))
	if _, _, global, _ := r.Guest(); global != ip("2001:db8::99") {
		t.Errorf("RFC 4861 7.1.2 solicited advertisement to all nodes was believed: %v", global)
	}
}

func TestAppendSolicit(t *testing.T) {
	r := newResponder(t, nil)
	check := func(target netip.Addr) {
		t.Helper()
		f, ok := r.AppendSolicit(nil)
		if !ok {
			t.Fatal("nothing to ask for")
		}
		b := target.As16()
		want := sent{
			DstMAC: header.MAC{0x33, 0x33, 0xff, b[13], b[14], b[15]}, Src: ourLL, Dst: group(target),
			Msg: &ndp.NeighborSolicitation{TargetAddress: target, Options: sourceLL(ourMAC)},
		}
		if diff := cmp.Diff(want, decode(t, f), cmpAddr); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	check(assigned)
	r.Handle(nil, ns(t, ip("2001:db8::42"), ourLL))
	check(ip("2001:db8::42"))

	r = newResponder(t, func(c *Config) { c.Guest = netip.Addr{} })
	if _, ok := r.AppendSolicit(nil); ok {
		t.Error("asked for nothing")
	}
	r.Handle(nil, rs(t, guestLL))
	check(guestLL)
}

func TestRouterAdvertisement(t *testing.T) {
	r := newResponder(t, func(c *Config) {
		c.MTU = 65520
		c.DNS = []netip.Addr{ip("192.0.2.1"), ip("2001:db8::53"), ip("::1"), ip("fe80::1%eth0")}
		c.Search = []string{"a.example", "b.example."}
		c.Prefix = netip.MustParsePrefix("2001:db8::5/64")
	})
	ra := &ndp.RouterAdvertisement{
		CurrentHopLimit: 64,
		RouterLifetime:  65535 * time.Second,
		Options: []ndp.Option{
			&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: net.HardwareAddr(ourMAC[:])},
			ndp.NewMTU(65520),
			&ndp.PrefixInformation{
				PrefixLength: 64, OnLink: true, AutonomousAddressConfiguration: true,
				ValidLifetime: 720 * time.Hour, PreferredLifetime: 168 * time.Hour, Prefix: ip("2001:db8::"),
			},
			&ndp.RecursiveDNSServer{
				Lifetime: 65535 * time.Second, Servers: []netip.Addr{ip("2001:db8::53"), ip("fe80::1")},
			},
			&ndp.DNSSearchList{Lifetime: 65535 * time.Second, DomainNames: []string{"a.example", "b.example"}},
		},
	}
	solicited, _ := r.Handle(nil, rs(t, guestLL))
	fromNobody, _ := r.Handle(nil, rs(t, netip.IPv6Unspecified()))
	tests := []struct {
		name   string
		frame  []byte
		dst    netip.Addr
		dstMAC header.MAC
	}{
		{"RFC 4861 6.2.4 unsolicited", r.AppendRA(nil), allNodes, allNodesMAC},
		{"RFC 4861 6.2.6 solicited", solicited, guestLL, guestMAC},
		{"RFC 4861 6.2.6 solicited from ::", fromNobody, allNodes, allNodesMAC},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := sent{DstMAC: tt.dstMAC, Src: ourLL, Dst: tt.dst, Msg: ra}
			if diff := cmp.Diff(want, decode(t, tt.frame), cmpAddr); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRouterAdvertisementOptions(t *testing.T) {
	plain := newResponder(t, func(c *Config) { c.Prefix, c.Managed, c.Other, c.NoRA = netip.Prefix{}, true, true, true })
	ra := decode(t, plain.AppendRA(nil)).Msg.(*ndp.RouterAdvertisement)
	if len(ra.Options) != 1 || !ra.ManagedConfiguration || !ra.OtherConfiguration {
		t.Errorf("got %+v", ra)
	}
	if _, ok := plain.Handle(nil, rs(t, guestLL)); ok {
		t.Error("NoRA: answered a router solicitation")
	}

	long := strings.Repeat("abc.", 60) + "abcd"
	tests := []struct {
		name   string
		search []string
		atMost int // names; at least is as many as the packet takes
		want   []string
	}{
		{"RFC 8106 5.2 many names, cut at a name border", numbered(300), 300, numbered(20)},
		{"name too long for the library is left out", []string{long, "a.example"}, 1, []string{"a.example"}},
		{"empty list", []string{"", "."}, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newResponder(t, func(c *Config) {
				c.Search = tt.search
				for i := range 40 {
					c.DNS = append(c.DNS, netip.AddrFrom16([16]byte{0: 0x20, 15: byte(i + 1)}))
				}
			})
			f := r.AppendRA(nil)
			if n := len(f) - header.EthLen; n > minMTU {
				t.Errorf("packet of %d bytes", n)
			}
			var names []string
			for _, o := range decode(t, f).Msg.(*ndp.RouterAdvertisement).Options {
				if d, ok := o.(*ndp.DNSSearchList); ok {
					names = append(names, d.DomainNames...)
				}
			}
			if len(names) < len(tt.want) || len(names) > tt.atMost {
				t.Fatalf("%d names", len(names))
			}
			if diff := cmp.Diff(tt.want, names[:len(tt.want)], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func numbered(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("dept%d.corp.example", i))
	}
	return out
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"no MAC":                     {},
		"group MAC":                  {MAC: header.Broadcast},
		"global address of ours":     {MAC: ourMAC, LinkLocal: ip("2001:db8::1")},
		"IPv4 link-local of ours":    {MAC: ourMAC, LinkLocal: ip("169.254.1.1")},
		"IPv4 guest":                 {MAC: ourMAC, Guest: ip("10.0.0.1")},
		"RFC 4862 5.5.3 prefix size": {MAC: ourMAC, Prefix: netip.MustParsePrefix("2001:db8::/56")},
		"IPv4 prefix":                {MAC: ourMAC, Prefix: netip.MustParsePrefix("10.0.0.0/8")},
		"RFC 8200 5 MTU":             {MAC: ourMAC, MTU: 1279},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r := newResponder(t, func(c *Config) { c.LinkLocal = ip("fe80::1%eth0") })
	if r.LinkLocal() != ip("fe80::1") {
		t.Errorf("link-local address %v", r.LinkLocal())
	}
}

func FuzzNDP(f *testing.F) {
	f.Add(ns(f, guestLL, ourLL))
	f.Add(ns(f, netip.IPv6Unspecified(), assigned))
	f.Add(rs(f, guestLL))
	f.Add(rs(f, netip.IPv6Unspecified()))
	f.Add(frame(f, guestMAC, guestLL, ourLL, &ndp.NeighborAdvertisement{TargetAddress: assigned, Options: targetLL(guestMAC)}))
	f.Fuzz(func(t *testing.T, in []byte) {
		const icmp = header.EthLen + header.IPv6Len
		if len(in) > icmp+4 && in[20] == header.ProtoICMPv6 { // let it get behind the checksum
			in = append([]byte(nil), in...)
			src, dst := header.Addr(in[22:38]), header.Addr(in[38:54])
			end := min(len(in), icmp+int(be.Uint16(in[18:20])))
			be.PutUint16(in[icmp+2:], 0)
			sum := header.PseudoSum(&src, &dst, header.ProtoICMPv6, uint32(end-icmp))
			be.PutUint16(in[icmp+2:], ^header.Sum(in[icmp:end], sum))
		}
		r := newResponder(t, nil)
		for range 2 {
			reply, ok := r.Handle(nil, in)
			if !ok {
				continue
			}
			if m, isNA := decode(t, reply).Msg.(*ndp.NeighborAdvertisement); isNA && m.TargetAddress == assigned {
				t.Fatal("answered for the guest's address")
			}
		}
		if f, ok := r.AppendSolicit(nil); ok {
			decode(t, f)
		}
	})
}

// TestRouterThatLeadsNowhere is RFC 4861 section 4.2: a lifetime of 0 says that
// the router is not a default router.
func TestRouterThatLeadsNowhere(t *testing.T) {
	for _, notDefault := range []bool{false, true} {
		c := Config{MAC: header.MAC{2, 0, 0, 0, 0, 1}, NotDefault: notDefault}
		r, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		ra := r.AppendRA(nil)
		at := header.EthLen + header.IPv6Len + 6
		if lifetime := int(ra[at])<<8 | int(ra[at+1]); (lifetime == 0) != notDefault {
			t.Errorf("NotDefault %v: router lifetime %d s", notDefault, lifetime)
		}
	}
}
