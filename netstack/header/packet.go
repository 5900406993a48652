package header

// Packet is what Parse found in the headers of one frame. Offsets count bytes
// from the start of the Ethernet header. Which fields are set:
//
//   - always: EtherType, SrcMAC, DstMAC, L3, End
//   - IPv4 and IPv6 (IsIP): V6, Src, Dst, Proto, TOS, TTL, L4, Payload, and the
//     fragment fields; FlowLabel for IPv6 only
//   - TCP and UDP that are not fragments: SrcPort, DstPort
type Packet struct {
	Src, Dst Addr
	SrcMAC   MAC
	DstMAC   MAC

	EtherType uint16
	SrcPort   uint16
	DstPort   uint16
	V6        bool
	Proto     uint8 // transport protocol, behind all extension headers
	TOS       uint8 // IPv4 TOS or IPv6 traffic class: DSCP and ECN
	TTL       uint8 // IPv4 time to live or IPv6 hop limit

	FlowLabel uint32 // 20 bits

	// Fragment fields. FragID is meaningful only if IsFragment.
	FragID   uint32
	FragOff  uint16 // bytes, multiple of 8
	FragMore bool   // more fragments follow
	DF       bool   // IPv4 don't fragment; always false for IPv6
	// Reassembled says that the packet was put together from fragments. Parse
	// never sets it.
	Reassembled bool

	L3      int // IP header, or what follows the Ethernet header
	L4      int // transport header; of a fragment: its part of the datagram
	Payload int // behind the transport header; L4 if that is not TCP, UDP or ICMP(v6)
	End     int // end of the packet; what follows in the frame is padding
}

// IsIP reports whether the packet is IPv4 or IPv6.
func (p *Packet) IsIP() bool {
	return p.EtherType == EtherTypeIPv4 || p.EtherType == EtherTypeIPv6
}

// IsFragment reports whether the packet holds only a part of a datagram. Its
// transport header was not looked at.
func (p *Packet) IsFragment() bool { return p.FragMore || p.FragOff != 0 }

// Parse fills p from hdr, a private copy of the first min(frameLen,
// MaxHeaders) bytes of an Ethernet frame of frameLen bytes. It returns OK, or
// why the frame is to be dropped; p is then partly filled.
//
// Frames that are neither IPv4 nor IPv6 give OK with L3 and End only.
//
// BIG TCP: an IPv4 total length of 0, or an IPv6 payload length of 0 with or
// without the jumbo payload option (RFC 2675), in a frame whose IP packet
// exceeds 65535 bytes and carries TCP, means that the packet ends where the
// frame ends.
func Parse(p *Packet, hdr []byte, frameLen int) Verdict {
	*p = Packet{}
	if frameLen < EthLen || len(hdr) < EthLen {
		return TooShort
	}
	if len(hdr) > frameLen {
		hdr = hdr[:frameLen]
	}
	p.DstMAC = MAC(hdr[0:6])
	p.SrcMAC = MAC(hdr[6:12])
	p.EtherType = be.Uint16(hdr[12:14])
	p.L3, p.End = EthLen, frameLen
	switch p.EtherType {
	case EtherTypeIPv4:
		return parseIPv4(p, hdr)
	case EtherTypeIPv6:
		return parseIPv6(p, hdr)
	}
	return OK
}

// short says what is wrong when the headers need more bytes than hdr has.
func short(p *Packet, hdr []byte) Verdict {
	if len(hdr) < p.End {
		return TooLong
	}
	return TooShort
}

func parseIPv4(p *Packet, hdr []byte) Verdict {
	if len(hdr) < EthLen+IPv4Len {
		return short(p, hdr)
	}
	b := hdr[EthLen:]
	if b[0]>>4 != 4 {
		return BadVersion
	}
	ihl := int(b[0]&0xf) * 4
	if ihl < IPv4Len {
		return BadHeaderLen
	}
	if len(b) < ihl {
		return short(p, hdr)
	}
	if Sum(b[:ihl], 0) != 0xffff {
		return BadChecksum
	}
	p.TOS, p.TTL, p.Proto = b[1], b[8], b[9]
	p.Src, p.Dst = AddrFrom4([4]byte(b[12:16])), AddrFrom4([4]byte(b[16:20]))
	total := int(be.Uint16(b[2:4]))
	if total == 0 && p.Proto == ProtoTCP && p.End-EthLen > maxIPLen {
		total = p.End - EthLen // BIG TCP
	}
	if total < ihl || total > p.End-EthLen {
		return BadLength
	}
	p.End = EthLen + total
	p.L4 = EthLen + ihl

	frag := be.Uint16(b[6:8])
	p.DF = frag&0x4000 != 0
	p.FragMore = frag&0x2000 != 0
	p.FragOff = frag << 3
	p.FragID = uint32(be.Uint16(b[4:6]))
	if p.IsFragment() {
		return checkFragment(p)
	}
	return ParseTransport(p, hdr)
}

// checkFragment checks the place of a fragment in its datagram (RFC 791 section
// 3.2, RFC 8200 section 4.5).
func checkFragment(p *Packet) Verdict {
	p.Payload = p.L4
	n := p.End - p.L4
	if n == 0 || p.FragMore && n%8 != 0 || int(p.FragOff)+n > maxIPLen {
		return BadFragment
	}
	return OK
}

// ParseTransport reads the transport header at p.L4 of hdr and sets the ports,
// Payload and, for UDP, End. Parse calls it; others need it for a datagram put
// together from fragments, where hdr is a private copy of its beginning and
// p.L4 and p.End say where in it the datagram lies.
func ParseTransport(p *Packet, hdr []byte) Verdict {
	if len(hdr) > p.End {
		hdr = hdr[:p.End]
	}
	if p.L4 > len(hdr) {
		return short(p, hdr)
	}
	p.Payload = p.L4
	b := hdr[p.L4:]
	switch p.Proto {
	case ProtoTCP:
		if len(b) < TCPLen {
			return short(p, hdr)
		}
		doff := int(b[12]>>4) * 4
		if doff < TCPLen {
			return BadHeaderLen
		}
		if len(b) < doff {
			return short(p, hdr)
		}
		p.Payload += doff
	case ProtoUDP:
		if len(b) < UDPLen {
			return short(p, hdr)
		}
		n := int(be.Uint16(b[4:6]))
		if n < UDPLen || n > p.End-p.L4 {
			return BadLength
		}
		p.End = p.L4 + n
		p.Payload += UDPLen
	case ProtoICMP, ProtoICMPv6:
		if len(b) < ICMPLen {
			return short(p, hdr)
		}
		p.Payload += ICMPLen
		return OK
	default:
		return OK
	}
	p.SrcPort, p.DstPort = be.Uint16(b[0:2]), be.Uint16(b[2:4])
	return OK
}
