package header

// ICMPError is what an ICMP or ICMPv6 error message says.
type ICMPError struct {
	Type, Code uint8
	MTU        uint32 // with fragmentation needed and packet too big; else 0
}

// MaxICMPErrorFrame is the room that PutICMPError needs at most.
const MaxICMPErrorFrame = MaxICMPv6Error

// maxQuote4 is how much of the packet an ICMP error quotes at most: what lets
// the message fit MaxICMPError.
const maxQuote4 = MaxICMPError - IPv4Len - ICMPLen

// PutICMPError writes the IP packet that tells to about the packet quoted, as
// coming from from: IP header, ICMP header, and the beginning of quoted, which
// starts with its IP header. The addresses decide the family. It returns the
// length of the packet (RFC 792, RFC 1812 section 4.3.2.3, RFC 4443 section
// 2.4).
func PutICMPError(b []byte, from, to *Addr, e ICMPError, quoted []byte) int {
	h := IP{Src: *from, Dst: *to, Proto: ICMPProto(to), TTL: 64}
	most := MaxICMPv6Error - IPv6Len - ICMPLen
	rest := e.MTU
	if to.Is4() {
		most = maxQuote4
		rest &= 0xffff // RFC 1191 section 4: the upper half is unused
	}
	quoted = quoted[:min(len(quoted), most)]
	n := PutIP(b, &h, ICMPLen+len(quoted))
	end := n + PutICMP(b[n:], e.Type, e.Code, rest)
	end += copy(b[end:], quoted)
	SetChecksum(b[n:end], from, to, h.Proto)
	return end
}

// ICMPProto returns the protocol number of the ICMP that goes with the family
// of a.
func ICMPProto(a *Addr) uint8 {
	if a.Is4() {
		return ProtoICMP
	}
	return ProtoICMPv6
}
