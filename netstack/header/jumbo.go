package header

// JumboLen is the size in bytes of the header that PutJumbo writes.
const JumboLen = 8

// optPadN pads options (RFC 8200 section 4.2).
const optPadN = 1

// PutJumbo writes, behind an IPv6 header whose Proto is ProtoHopByHop, a
// hop-by-hop header of JumboLen bytes in front of a header of type next.
// payloadBytes is what the IPv6 header was given: everything behind it, this
// header too. More than 65535 are said in a jumbo payload option (RFC 2675
// section 2), which must not say fewer: then the header is padding.
func PutJumbo(b []byte, next uint8, payloadBytes int) int {
	_ = b[JumboLen-1]
	b[0], b[1] = next, 0
	if payloadBytes > maxIPLen {
		b[2], b[3] = optJumbo, optJumboLen
		be.PutUint32(b[4:8], uint32(payloadBytes))
		return JumboLen
	}
	b[2], b[3] = optPadN, 4
	be.PutUint32(b[4:8], 0)
	return JumboLen
}
