package header

// The Put functions write one header each to the start of b, which must have
// room for it, and return the header's size. None writes beyond it.

// PutEth writes an Ethernet header of EthLen bytes.
func PutEth(b []byte, dst, src MAC, etherType uint16) int {
	_ = b[EthLen-1]
	copy(b[0:6], dst[:])
	copy(b[6:12], src[:])
	be.PutUint16(b[12:14], etherType)
	return EthLen
}

// IP holds the fields of an IPv4 or IPv6 header. Src and Dst decide which, and
// must agree.
type IP struct {
	Src, Dst  Addr
	Proto     uint8
	TOS       uint8 // TOS or traffic class
	TTL       uint8 // time to live or hop limit
	DF        bool  // IPv4 only
	FlowLabel uint32
	ID        uint16 // IPv4 only
	FragOff   uint16 // IPv4 only; bytes, multiple of 8
	FragMore  bool   // IPv4 only
}

// EtherType returns the EtherType that h needs.
func (h *IP) EtherType() uint16 {
	if h.Src.Is4() {
		return EtherTypeIPv4
	}
	return EtherTypeIPv6
}

// Len returns the size of the header that PutIP writes: IPv4Len or IPv6Len.
func (h *IP) Len() int {
	if h.Src.Is4() {
		return IPv4Len
	}
	return IPv6Len
}

// PutIP is [PutIPv4] or [PutIPv6], as the addresses of h ask.
func PutIP(b []byte, h *IP, payloadBytes int) int {
	if h.Src.Is4() {
		return PutIPv4(b, h, payloadBytes)
	}
	return PutIPv6(b, h, payloadBytes)
}

// PutIPv4 writes an IPv4 header of IPv4Len bytes, checksum included. A packet
// of more than 65535 bytes gets the total length 0 (BIG TCP).
func PutIPv4(b []byte, h *IP, payloadBytes int) int {
	_ = b[IPv4Len-1]
	b[0], b[1] = 0x45, h.TOS
	be.PutUint16(b[4:6], h.ID)
	frag := h.FragOff >> 3
	if h.DF {
		frag |= 0x4000
	}
	if h.FragMore {
		frag |= 0x2000
	}
	be.PutUint16(b[6:8], frag)
	b[8], b[9] = h.TTL, h.Proto
	copy(b[12:16], h.Src[12:16])
	copy(b[16:20], h.Dst[12:16])
	SetIPv4Len(b, payloadBytes)
	return IPv4Len
}

// SetIPv4Len sets the total length of the IPv4 header without options at b and
// recomputes its checksum. More than 65535 bytes become 0.
func SetIPv4Len(b []byte, payloadBytes int) {
	total := IPv4Len + payloadBytes
	if total > maxIPLen {
		total = 0
	}
	be.PutUint16(b[2:4], uint16(total))
	be.PutUint16(b[10:12], 0)
	be.PutUint16(b[10:12], ^Sum(b[:IPv4Len], 0))
}

// PutIPv6 writes an IPv6 header of IPv6Len bytes. payloadBytes counts
// everything behind it; more than 65535 becomes 0 (BIG TCP).
func PutIPv6(b []byte, h *IP, payloadBytes int) int {
	_ = b[IPv6Len-1]
	be.PutUint32(b[0:4], 6<<28|uint32(h.TOS)<<20|h.FlowLabel&0xfffff)
	SetIPv6Len(b, payloadBytes)
	b[6], b[7] = h.Proto, h.TTL
	copy(b[8:24], h.Src[:])
	copy(b[24:40], h.Dst[:])
	return IPv6Len
}

// SetIPv6Len sets the payload length of the IPv6 header at b. More than 65535
// bytes become 0.
func SetIPv6Len(b []byte, payloadBytes int) {
	if payloadBytes > maxIPLen {
		payloadBytes = 0
	}
	be.PutUint16(b[4:6], uint16(payloadBytes))
}

// PutFragment writes an IPv6 fragment header of FragmentLen bytes (RFC 8200
// section 4.5). offset is in bytes, a multiple of 8; next is the protocol of
// the datagram.
func PutFragment(b []byte, next uint8, id uint32, offset int, more bool) int {
	_ = b[FragmentLen-1]
	b[0], b[1] = next, 0
	word := uint16(offset) &^ 7
	if more {
		word |= 1
	}
	be.PutUint16(b[2:4], word)
	be.PutUint32(b[4:8], id)
	return FragmentLen
}

// PutUDP writes a UDP header of UDPLen bytes with checksum 0.
func PutUDP(b []byte, srcPort, dstPort uint16, payloadBytes int) int {
	_ = b[UDPLen-1]
	be.PutUint16(b[0:2], srcPort)
	be.PutUint16(b[2:4], dstPort)
	be.PutUint16(b[4:6], uint16(UDPLen+payloadBytes))
	be.PutUint16(b[6:8], 0)
	return UDPLen
}

// PutICMP writes an ICMP or ICMPv6 header of ICMPLen bytes with checksum 0.
// rest is its second word: id and sequence number of an echo, MTU or zero of an
// error.
func PutICMP(b []byte, typ, code uint8, rest uint32) int {
	_ = b[ICMPLen-1]
	b[0], b[1] = typ, code
	be.PutUint16(b[2:4], 0)
	be.PutUint32(b[4:8], rest)
	return ICMPLen
}
