package header

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	guest4, host4 = AddrFrom4([4]byte{10, 0, 2, 15}), AddrFrom4([4]byte{192, 0, 2, 1})
	guest6        = Addr{0: 0xfd, 15: 0x15}
	host6         = Addr{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 1}
	guestMAC      = MAC{0x52, 0x54, 0, 1, 2, 3}
	ourMAC        = MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
)

// frame4 makes an IPv4 frame from the guest around l4.
func frame4(proto uint8, l4 []byte) []byte {
	return frameIP(&IP{Src: guest4, Dst: host4, Proto: proto, TTL: 64, TOS: 0x28, DF: true, ID: 7}, l4)
}

// frame6 makes an IPv6 frame from the guest around l4.
func frame6(proto uint8, l4 []byte) []byte {
	return frameIP(&IP{Src: guest6, Dst: host6, Proto: proto, TTL: 63, TOS: 0x28, FlowLabel: 0xabcde}, l4)
}

func frameIP(h *IP, l4 []byte) []byte {
	b := make([]byte, EthLen+h.Len()+len(l4))
	n := PutEth(b, ourMAC, guestMAC, h.EtherType())
	n += PutIP(b[n:], h, len(l4))
	copy(b[n:], l4)
	return b
}

func tcpSegment(options []byte, payloadBytes int) []byte {
	b := make([]byte, TCPLen+len(options)+payloadBytes)
	PutTCP(b, &TCPFields{SrcPort: 40000, DstPort: 443, Seq: 1, Ack: 2, Flags: TCPAck, Window: 512}, len(options))
	copy(b[TCPLen:], options)
	return b
}

func udpDatagram(payloadBytes int) []byte {
	b := make([]byte, UDPLen+payloadBytes)
	PutUDP(b, 5353, 53, payloadBytes)
	return b
}

func cat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func parse(frame []byte) (Packet, Verdict) {
	var p Packet
	v := Parse(&p, frame[:min(len(frame), MaxHeaders)], len(frame))
	return p, v
}

func TestParseFields(t *testing.T) {
	base4 := Packet{
		Src: guest4, Dst: host4, SrcMAC: guestMAC, DstMAC: ourMAC, EtherType: EtherTypeIPv4,
		TOS: 0x28, TTL: 64, DF: true, L3: 14, L4: 34, FragID: 7,
	}
	base6 := Packet{
		Src: guest6, Dst: host6, SrcMAC: guestMAC, DstMAC: ourMAC, EtherType: EtherTypeIPv6, V6: true,
		TOS: 0x28, TTL: 63, FlowLabel: 0xabcde, L3: 14, L4: 54,
	}
	for _, tc := range []struct {
		name  string
		frame []byte
		base  Packet
		set   func(*Packet)
	}{
		{"TCP over IPv4", frame4(ProtoTCP, tcpSegment(nil, 10)), base4, func(p *Packet) {
			p.Proto, p.SrcPort, p.DstPort, p.Payload, p.End = ProtoTCP, 40000, 443, 54, 64
		}},
		{"padding is cut off", append(frame4(ProtoTCP, tcpSegment(nil, 0)), make([]byte, 6)...), base4, func(p *Packet) {
			p.Proto, p.SrcPort, p.DstPort, p.Payload, p.End = ProtoTCP, 40000, 443, 54, 54
		}},
		{"TCP options over IPv6", frame6(ProtoTCP, tcpSegment(make([]byte, 12), 3)), base6, func(p *Packet) {
			p.Proto, p.SrcPort, p.DstPort, p.Payload, p.End = ProtoTCP, 40000, 443, 86, 89
		}},
		{"empty UDP datagram", frame6(ProtoUDP, udpDatagram(0)), base6, func(p *Packet) {
			p.Proto, p.SrcPort, p.DstPort, p.Payload, p.End = ProtoUDP, 5353, 53, 62, 62
		}},
		{"UDP shorter than its packet", frame4(ProtoUDP, append(udpDatagram(4), 0, 0)), base4, func(p *Packet) {
			p.Proto, p.SrcPort, p.DstPort, p.Payload, p.End = ProtoUDP, 5353, 53, 42, 46
		}},
		{"ICMP echo", frame4(ProtoICMP, make([]byte, 64)), base4, func(p *Packet) {
			p.Proto, p.Payload, p.End = ProtoICMP, 42, 98
		}},
		{"unknown protocol", frame6(132, make([]byte, 12)), base6, func(p *Packet) {
			p.Proto, p.Payload, p.End = 132, 54, 66
		}},
		{"nothing behind IPv6", frame6(ProtoNone, nil), base6, func(p *Packet) {
			p.Proto, p.Payload, p.End = ProtoNone, 54, 54
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.base
			tc.set(&want)
			got, v := parse(tc.frame)
			if v != OK {
				t.Fatalf("verdict %v", v)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("packet differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNotIP(t *testing.T) {
	frame := make([]byte, 60)
	PutEth(frame, Broadcast, guestMAC, EtherTypeARP)
	p, v := parse(frame)
	want := Packet{SrcMAC: guestMAC, DstMAC: Broadcast, EtherType: EtherTypeARP, L3: 14, End: 60}
	if v != OK || cmp.Diff(want, p) != "" || p.IsIP() {
		t.Errorf("got %v, %+v", v, p)
	}
}

// TestParseTruncated cuts each frame at every byte: what lacks a byte that a
// length field promises is refused.
func TestParseTruncated(t *testing.T) {
	frames := map[string][]byte{
		"tcp4":  frame4(ProtoTCP, tcpSegment(make([]byte, 20), 9)),
		"tcp6":  frame6(ProtoTCP, tcpSegment(make([]byte, 20), 9)),
		"udp4":  frame4(ProtoUDP, udpDatagram(9)),
		"udp6":  frame6(ProtoUDP, udpDatagram(9)),
		"icmp4": frame4(ProtoICMP, make([]byte, 8)),
		"icmp6": frame6(ProtoICMPv6, make([]byte, 8)),
		"ext6":  frame6(ProtoDestOpts, cat([]byte{ProtoUDP, 0, 1, 4, 0, 0, 0, 0}, udpDatagram(3))),
	}
	for name, frame := range frames {
		if _, v := parse(frame); v != OK {
			t.Errorf("%s: whole frame refused: %v", name, v)
		}
		for n := range frame {
			if _, v := parse(frame[:n:n]); v == OK {
				t.Errorf("%s: accepted when cut to %d of %d bytes", name, n, len(frame))
			}
		}
	}
}

// fixIPv4 makes the header checksum right again after a test broke the header.
func fixIPv4(frame []byte) []byte {
	b := frame[EthLen:]
	n := min(max(int(b[0]&0xf)*4, IPv4Len), len(b))
	be.PutUint16(b[10:12], 0)
	be.PutUint16(b[10:12], ^Sum(b[:n], 0))
	return frame
}

func TestParseMalformed(t *testing.T) {
	edit := func(frame []byte, at int, with ...byte) []byte {
		copy(frame[at:], with)
		return frame
	}
	tcp4 := func() []byte { return frame4(ProtoTCP, tcpSegment(nil, 10)) }
	udp4 := func() []byte { return frame4(ProtoUDP, udpDatagram(10)) }
	udp6 := func() []byte { return frame6(ProtoUDP, udpDatagram(10)) }
	for _, tc := range []struct {
		name  string
		frame []byte
		want  Verdict
	}{
		{"empty", nil, TooShort},
		{"IPv4 version 6", fixIPv4(edit(tcp4(), 14, 0x65)), BadVersion},
		{"IPv6 version 4", edit(udp6(), 14, 0x45), BadVersion},
		{"IHL 4", fixIPv4(edit(tcp4(), 14, 0x44)), BadHeaderLen},
		{"IHL beyond frame", edit(frame4(ProtoTCP, nil), 14, 0x4f), TooShort},
		{"IHL beyond total length", fixIPv4(edit(frame4(ProtoTCP, tcpSegment(nil, 60)), 14, 0x4f, 0, 0, 40)), BadLength},
		{"header checksum", edit(tcp4(), 22, 65), BadChecksum},
		{"total length 0", fixIPv4(edit(tcp4(), 16, 0, 0)), BadLength},
		{"total length 19", fixIPv4(edit(tcp4(), 16, 0, 19)), BadLength},
		{"total length beyond frame", fixIPv4(edit(tcp4(), 16, 0, 51)), BadLength},
		{"total length 65535", fixIPv4(edit(tcp4(), 16, 0xff, 0xff)), BadLength},
		{"TCP header cut by total length", fixIPv4(edit(tcp4(), 16, 0, 39)), TooShort},
		{"TCP data offset 4", edit(tcp4(), 46, 0x40), BadHeaderLen},
		{"TCP data offset 0", edit(tcp4(), 46, 0), BadHeaderLen},
		{"TCP data offset beyond segment", edit(tcp4(), 46, 0xf0), TooShort},
		{"UDP length 0", edit(udp4(), 38, 0, 0), BadLength},
		{"UDP length 7", edit(udp4(), 38, 0, 7), BadLength},
		{"UDP length beyond packet", edit(udp4(), 38, 0, 19), BadLength},
		{"IPv6 payload length beyond frame", edit(udp6(), 18, 0, 19), BadLength},
		{"IPv6 payload length 0", edit(udp6(), 18, 0, 0), TooShort},
		{"mapped source", edit(udp6(), 22, host4[:]...), BadAddress},
		{"mapped destination", edit(udp6(), 38, host4[:]...), BadAddress},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, got := parse(tc.frame); got != tc.want {
				t.Errorf("verdict %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseFragments(t *testing.T) {
	frag4 := func(off uint16, more bool, n int) []byte {
		return frameIP(&IP{Src: guest4, Dst: host4, Proto: ProtoUDP, TTL: 1, ID: 99, FragOff: off, FragMore: more}, make([]byte, n))
	}
	frag6 := func(off int, more bool, n int) []byte {
		h := make([]byte, FragmentLen)
		PutFragment(h, ProtoUDP, 0xdeadbeef, off, more)
		return frame6(ProtoFragment, cat(h, make([]byte, n)))
	}
	for _, tc := range []struct {
		name  string
		frame []byte
		want  Verdict
		id    uint32
		off   uint16
		more  bool
		l4    int
	}{
		{"first v4", frag4(0, true, 16), OK, 99, 0, true, 34},
		{"last v4", frag4(1480, false, 3), OK, 99, 1480, false, 34},
		{"v4 odd size in the middle", frag4(8, true, 15), BadFragment, 0, 0, false, 0},
		{"v4 beyond 64 KiB", frag4(65528, false, 8), BadFragment, 0, 0, false, 0},
		{"v4 up to 64 KiB", frag4(65528, false, 7), OK, 99, 65528, false, 34},
		{"v4 without data", frag4(8, false, 0), BadFragment, 0, 0, false, 0},
		{"first v6", frag6(0, true, 16), OK, 0xdeadbeef, 0, true, 62},
		{"last v6", frag6(1448, false, 3), OK, 0xdeadbeef, 1448, false, 62},
		{"v6 odd size in the middle", frag6(8, true, 12), BadFragment, 0, 0, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, v := parse(tc.frame)
			if v != tc.want {
				t.Fatalf("verdict %q, want %q", v, tc.want)
			}
			if v != OK {
				return
			}
			if !p.IsFragment() || p.FragID != tc.id || p.FragOff != tc.off || p.FragMore != tc.more ||
				p.L4 != tc.l4 || p.Payload != tc.l4 || p.End != len(tc.frame) || p.Proto != ProtoUDP || p.SrcPort != 0 {
				t.Errorf("got %+v", p)
			}
		})
	}
	// RFC 6946: a fragment header on a whole packet changes nothing.
	h := make([]byte, FragmentLen)
	PutFragment(h, ProtoUDP, 5, 0, false)
	if p, v := parse(frame6(ProtoFragment, cat(h, udpDatagram(4)))); v != OK || p.IsFragment() || p.DstPort != 53 {
		t.Errorf("atomic fragment: %v, %+v", v, p)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	frame := frame6(ProtoTCP, tcpSegment(make([]byte, 12), 100))
	var p Packet
	if n := testing.AllocsPerRun(100, func() { Parse(&p, frame, len(frame)) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, frame := range [][]byte{
		frame4(ProtoTCP, tcpSegment(make([]byte, 12), 4)), frame4(ProtoUDP, udpDatagram(4)),
		frame6(ProtoTCP, tcpSegment(nil, 4)), frame6(ProtoICMPv6, make([]byte, 12)),
		frame6(ProtoHopByHop, cat([]byte{ProtoTCP, 0, optJumbo, 4, 0, 1, 0x86, 0xa0}, tcpSegment(nil, 0))),
		frame6(ProtoFragment, cat([]byte{ProtoUDP, 0, 0, 1, 1, 2, 3, 4}, make([]byte, 8))),
	} {
		f.Add(frame, len(frame))
		f.Add(frame, 200000)
	}
	f.Fuzz(func(t *testing.T, hdr []byte, frameLen int) {
		var p Packet
		if len(hdr) > MaxHeaders {
			hdr = hdr[:MaxHeaders]
		}
		frameLen = max(frameLen, len(hdr))
		if len(hdr) < MaxHeaders {
			frameLen = len(hdr) // the contract of Parse
		}
		if Parse(&p, hdr, frameLen) != OK {
			return
		}
		if p.L3 != EthLen || p.End > frameLen || p.End < p.L3 {
			t.Fatalf("L3 %d, End %d of %d", p.L3, p.End, frameLen)
		}
		if !p.IsIP() {
			return
		}
		if p.L4 < p.L3+IPv4Len || p.Payload < p.L4 || p.End < p.Payload || p.Payload > len(hdr) {
			t.Fatalf("L4 %d, Payload %d, End %d, copied %d", p.L4, p.Payload, p.End, len(hdr))
		}
		if p.V6 != (p.EtherType == EtherTypeIPv6) || p.V6 == p.Src.Is4() || p.V6 == p.Dst.Is4() {
			t.Fatalf("families mixed: %+v", p)
		}
		if p.Proto == ProtoTCP && !p.IsFragment() {
			var o TCPOptions
			seg := TCP(hdr[p.L4:p.Payload])
			seg.ParseOptions(&o)
			if seg.HeaderLen() != len(seg) {
				t.Fatalf("header of %d bytes in %d", seg.HeaderLen(), len(seg))
			}
		}
	})
}

func BenchmarkParseTCP(b *testing.B) {
	frame := frame4(ProtoTCP, tcpSegment(make([]byte, 12), 100))
	var p Packet
	for b.Loop() {
		Parse(&p, frame, len(frame))
	}
}
