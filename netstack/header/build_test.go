package header

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBuildWritesOnlyItsHeader checks sizes, and that no builder touches a byte
// behind what it reports.
func TestBuildWritesOnlyItsHeader(t *testing.T) {
	h4, h6 := &IP{Src: guest4, Dst: host4}, &IP{Src: guest6, Dst: host6}
	for _, tc := range []struct {
		name string
		want int
		put  func(b []byte) int
	}{
		{"Ethernet", EthLen, func(b []byte) int { return PutEth(b, ourMAC, guestMAC, EtherTypeIPv4) }},
		{"IPv4", IPv4Len, func(b []byte) int { return PutIPv4(b, h4, 100) }},
		{"IPv6", IPv6Len, func(b []byte) int { return PutIPv6(b, h6, 100) }},
		{"fragment", FragmentLen, func(b []byte) int { return PutFragment(b, ProtoUDP, 1, 8, true) }},
		{"TCP", TCPLen, func(b []byte) int { return PutTCP(b, &TCPFields{}, 12) }},
		{"UDP", UDPLen, func(b []byte) int { return PutUDP(b, 1, 2, 3) }},
		{"ICMP", ICMPLen, func(b []byte) int { return PutICMP(b, ICMPEchoRequest, 0, 1) }},
		{"virtio-net", VnetLen, func(b []byte) int { return Vnet{NumBuffers: 1}.Put(b) }},
		{"MSS", TCPOptMSSLen, func(b []byte) int { return PutTCPMSS(b, 1460) }},
		{"window scale", TCPOptWScaleLen, func(b []byte) int { return PutTCPWScale(b, 7) }},
		{"SACK permitted", TCPOptSACKPermLen, func(b []byte) int { return PutTCPSACKPermitted(b) }},
		{"timestamps", TCPOptTimestampsLen, func(b []byte) int { return PutTCPTimestamps(b, 1, 2) }},
	} {
		b := make([]byte, 64)
		for i := range b {
			b[i] = 0xee
		}
		n := tc.put(b)
		if n != tc.want {
			t.Errorf("%s: %d bytes, want %d", tc.name, n, tc.want)
		}
		for i := n; i < len(b); i++ {
			if b[i] != 0xee {
				t.Errorf("%s: byte %d behind the header was written", tc.name, i)
			}
		}
		tc.put(make([]byte, tc.want)) // exactly enough room
	}
}

func TestBuildBigLengths(t *testing.T) {
	b := make([]byte, 40)
	for _, tc := range []struct{ payload, want4, want6 int }{
		{0, 20, 0}, {100, 120, 100}, {65515, 65535, 65515}, {65516, 0, 65516}, {65535, 0, 65535}, {65536, 0, 0}, {200000, 0, 0},
	} {
		PutIPv4(b, &IP{Src: guest4, Dst: host4, Proto: ProtoTCP}, tc.payload)
		if got := int(be.Uint16(b[2:4])); got != tc.want4 || Sum(b[:20], 0) != 0xffff {
			t.Errorf("IPv4 with %d bytes: total length %d, want %d", tc.payload, got, tc.want4)
		}
		PutIPv6(b, &IP{Src: guest6, Dst: host6, Proto: ProtoTCP}, tc.payload)
		if got := int(be.Uint16(b[4:6])); got != tc.want6 {
			t.Errorf("IPv6 with %d bytes: payload length %d, want %d", tc.payload, got, tc.want6)
		}
	}
}

// TestTemplate plays what a flow does: one header prepared, then patched.
func TestTemplate(t *testing.T) {
	hdr := make([]byte, EthLen+IPv4Len+TCPLen)
	n := PutEth(hdr, guestMAC, ourMAC, EtherTypeIPv4)
	n += PutIPv4(hdr[n:], &IP{Src: host4, Dst: guest4, Proto: ProtoTCP, TTL: 255, DF: true}, 0)
	n += PutTCP(hdr[n:], &TCPFields{SrcPort: 80, DstPort: 5000}, 0)
	if n != 54 {
		t.Fatalf("template of %d bytes", n)
	}
	for _, size := range []int{0, 1460, 65000} {
		SetIPv4Len(hdr[EthLen:], TCPLen+size)
		SetTCP(hdr[34:], 100, 200, TCPAck|TCPPsh, 1234)
		frame := append(append([]byte(nil), hdr...), make([]byte, size)...)
		p, v := parse(frame)
		if v != OK || p.End != len(frame) {
			t.Fatalf("%d bytes: %v, %+v", size, v, p)
		}
		seg := TCP(frame[p.L4:p.Payload])
		if seg.Seq() != 100 || seg.Ack() != 200 || seg.Flags() != TCPAck|TCPPsh || seg.Window() != 1234 || seg.Urgent() != 0 {
			t.Errorf("fields read back: %d %d %#x %d", seg.Seq(), seg.Ack(), seg.Flags(), seg.Window())
		}
	}
}

func TestTCPOptionsRoundTrip(t *testing.T) {
	var opt []byte
	add := func(n int, put func([]byte) int) {
		b := make([]byte, n)
		put(b)
		opt = append(opt, b...)
	}
	add(TCPOptMSSLen, func(b []byte) int { return PutTCPMSS(b, 1460) })
	add(TCPOptWScaleLen, func(b []byte) int { return PutTCPWScale(b, 9) })
	add(TCPOptSACKPermLen, PutTCPSACKPermitted)
	add(TCPOptTimestampsLen, func(b []byte) int { return PutTCPTimestamps(b, 77, 88) })
	var got TCPOptions
	TCP(tcpSegment(opt, 0)).ParseOptions(&got)
	want := TCPOptions{MSS: 1460, WScale: 9, HasWScale: true, SACKPermitted: true, HasTimestamps: true, TSVal: 77, TSEcr: 88}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options differ (-want +got):\n%s", diff)
	}
}

func TestTCPOptionsOdd(t *testing.T) {
	sack := []byte{optNop, optNop, optSACK, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4}
	for _, tc := range []struct {
		name string
		opt  []byte
		want TCPOptions
	}{
		{"none", nil, TCPOptions{}},
		{"end before MSS", []byte{optEnd, 0, 0, 0, optMSS, 4, 5, 0xb4}, TCPOptions{}},
		{"scale above 14", []byte{optWScale, 3, 200, optNop}, TCPOptions{WScale: 14, HasWScale: true}},
		{"wrong MSS length", []byte{optMSS, 3, 9, optNop, optMSS, 4, 5, 0xb4}, TCPOptions{MSS: 1460}},
		{"length 0", []byte{optMSS, 0, 5, 0xb4}, TCPOptions{}},
		{"length 1", []byte{99, 1, optMSS, 4}, TCPOptions{}},
		{"length beyond header", []byte{optNop, optNop, optTimestamp, 10}, TCPOptions{}},
		{"kind without length", []byte{optNop, optNop, optNop, optMSS}, TCPOptions{}},
		{"unknown skipped", []byte{254, 4, 1, 2, optMSS, 4, 2, 0x18}, TCPOptions{MSS: 536}},
		{"SACK", sack, TCPOptions{NumSACK: 2, SACK: [4]SACKBlock{{1, 2}, {3, 4}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got TCPOptions
			TCP(tcpSegment(tc.opt, 0)).ParseOptions(&got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddr(t *testing.T) {
	for _, tc := range []struct {
		text                                        string
		v4, unspec, loop, multi, link, bcast, alien bool
	}{
		{text: "10.0.0.1", v4: true},
		{text: "0.0.0.0", v4: true, unspec: true, alien: true},
		{text: "0.1.2.3", v4: true, alien: true},
		{text: "127.1.2.3", v4: true, loop: true, alien: true},
		{text: "224.0.0.251", v4: true, multi: true},
		{text: "239.255.255.250", v4: true, multi: true},
		{text: "169.254.1.1", v4: true, link: true},
		{text: "255.255.255.255", v4: true, bcast: true},
		{text: "::", unspec: true, alien: true},
		{text: "::1", loop: true, alien: true},
		{text: "ff02::fb", multi: true},
		{text: "fe80::1", link: true},
		{text: "febf::1", link: true},
		{text: "fec0::1"},
		{text: "2001:db8::1"},
	} {
		a := AddrFromNetip(netip.MustParseAddr(tc.text))
		got := []bool{a.Is4(), a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a.IsLinkLocal(), a.IsLimitedBroadcast(), a.IsMartian()}
		want := []bool{tc.v4, tc.unspec, tc.loop, tc.multi, tc.link, tc.bcast, tc.alien}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tc.text, diff)
		}
		if a.String() != tc.text {
			t.Errorf("String = %s, want %s", a, tc.text)
		}
	}
	if (AddrFromNetip(netip.Addr{}) != Addr{}) || AddrFrom4([4]byte{1, 2, 3, 4}).Netip() != netip.MustParseAddr("1.2.3.4") {
		t.Error("conversion of the zero address or of IPv4 is wrong")
	}
}
