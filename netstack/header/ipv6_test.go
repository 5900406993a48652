package header

import "testing"

// big returns a frame of n bytes that starts like frame, with the IPv4 total
// length or IPv6 payload length 0, and the header bytes that Parse gets of it.
func big(frame []byte, n int) ([]byte, int) {
	hdr := make([]byte, MaxHeaders)
	copy(hdr, frame)
	if be.Uint16(hdr[12:14]) == EtherTypeIPv4 {
		be.PutUint16(hdr[16:18], 0)
		fixIPv4(hdr)
	} else {
		be.PutUint16(hdr[18:20], 0)
	}
	return hdr, n
}

// jumboHBH is a hop-by-hop header with the jumbo payload option.
func jumboHBH(next uint8, length uint32) []byte {
	b := []byte{next, 0, optJumbo, optJumboLen, 0, 0, 0, 0}
	be.PutUint32(b[4:], length)
	return b
}

func TestParseBigTCP(t *testing.T) {
	const n = 200000
	seg := tcpSegment(nil, 0)
	hbh := func(length uint32) []byte { return frame6(ProtoHopByHop, cat(jumboHBH(ProtoTCP, length), seg)) }
	for _, tc := range []struct {
		name string
		from []byte
		n    int
		want Verdict
		l4   int
		end  int
	}{
		{"IPv4", frame4(ProtoTCP, seg), n, OK, 34, n},
		{"IPv4, smallest", frame4(ProtoTCP, seg), EthLen + 65536, OK, 34, EthLen + 65536},
		{"IPv4, fits 16 bits", frame4(ProtoTCP, seg), EthLen + 65535, BadLength, 0, 0},
		{"IPv4 UDP", frame4(ProtoUDP, udpDatagram(9)), n, BadLength, 0, 0},
		{"IPv6", frame6(ProtoTCP, seg), n, OK, 54, n},
		{"IPv6, smallest", frame6(ProtoTCP, seg), 54 + 65536, OK, 54, 54 + 65536},
		{"IPv6, fits 16 bits", frame6(ProtoTCP, seg), 54 + 65535, TooShort, 0, 0},
		{"IPv6 UDP", frame6(ProtoUDP, udpDatagram(9)), n, BadLength, 0, 0},
		{"jumbo option", hbh(n - 54), n, OK, 62, n},
		{"jumbo option, padded frame", hbh(n - 60), n, OK, 62, n - 6},
		{"jumbo option beyond frame", hbh(n), n, BadLength, 0, 0},
		{"jumbo option below 64 KiB", hbh(65535), n, BadLength, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hdr, frameLen := big(tc.from, tc.n)
			var p Packet
			if v := Parse(&p, hdr, frameLen); v != tc.want {
				t.Fatalf("verdict %q, want %q", v, tc.want)
			}
			if tc.want == OK && (p.L4 != tc.l4 || p.End != tc.end || p.Payload != tc.l4+TCPLen || p.DstPort != 443) {
				t.Errorf("got %+v", p)
			}
		})
	}
	// The option next to a payload length is an error (RFC 2675 section 3).
	if _, v := parse(hbh(70000)); v != BadExtHeader {
		t.Errorf("jumbo option in a small packet: %v", v)
	}
}

func TestParseExtensionHeaders(t *testing.T) {
	udp := udpDatagram(4)
	opts := func(next uint8) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }
	routing := func(next, left uint8) []byte { return []byte{next, 0, 0, left, 0, 0, 0, 0} }
	alert := []byte{ProtoUDP, 0, 5, 2, 0, 0, 1, 0} // router alert, Pad1, Pad1...
	alert[6], alert[7] = optPad1, optPad1
	long := make([]byte, 8*20)
	long[0], long[1] = ProtoUDP, 19
	long[2], long[3] = 1, 156
	many := func(n int) []byte {
		var b []byte
		for range n - 1 {
			b = append(b, opts(ProtoDestOpts)...)
		}
		return cat(b, opts(ProtoUDP), udp)
	}
	for _, tc := range []struct {
		name  string
		next  uint8
		data  []byte
		want  Verdict
		l4Off int
	}{
		{"hop by hop", ProtoHopByHop, cat(opts(ProtoUDP), udp), OK, 8},
		{"router alert", ProtoHopByHop, cat(alert, udp), OK, 8},
		{"long options", ProtoDestOpts, cat(long, udp), OK, 160},
		{"chain", ProtoHopByHop, cat(opts(ProtoRouting), routing(ProtoDestOpts, 0), opts(ProtoUDP), udp), OK, 24},
		{"eight", ProtoDestOpts, many(8), OK, 64},
		{"nine", ProtoDestOpts, many(9), BadExtHeader, 0},
		{"hop by hop not first", ProtoDestOpts, cat(opts(ProtoHopByHop), opts(ProtoUDP), udp), BadExtHeader, 0},
		{"hop by hop twice", ProtoHopByHop, cat(opts(ProtoHopByHop), opts(ProtoUDP), udp), BadExtHeader, 0},
		{"segments left", ProtoRouting, cat(routing(ProtoUDP, 1), udp), BadExtHeader, 0},
		{"option length beyond header", ProtoHopByHop, cat([]byte{ProtoUDP, 0, 1, 5, 0, 0, 0, 0}, udp), BadExtHeader, 0},
		{"option without length", ProtoHopByHop, cat([]byte{ProtoUDP, 0, 0, 0, 0, 0, 0, 1}, udp), BadExtHeader, 0},
		{"unknown option to be dropped", ProtoHopByHop, cat([]byte{ProtoUDP, 0, 0x7e, 4, 0, 0, 0, 0}, udp), BadExtHeader, 0},
		{"unknown option to be skipped", ProtoHopByHop, cat([]byte{ProtoUDP, 0, 0x3e, 4, 0, 0, 0, 0}, udp), OK, 8},
		{"header beyond packet", ProtoDestOpts, cat([]byte{ProtoUDP, 9, 1, 4, 0, 0, 0, 0}, udp), TooShort, 0},
		{"nothing behind", ProtoDestOpts, []byte{ProtoUDP, 0, 1, 4, 0, 0, 0, 0}, TooShort, 0},
		{"beyond what is looked at", ProtoDestOpts, cat([]byte{ProtoUDP, 40}, make([]byte, 400)), TooLong, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, v := parse(frame6(tc.next, tc.data))
			if v != tc.want {
				t.Fatalf("verdict %q, want %q", v, tc.want)
			}
			if v == OK && (p.Proto != ProtoUDP || p.L4 != 54+tc.l4Off || p.DstPort != 53) {
				t.Errorf("got %+v", p)
			}
		})
	}
}
