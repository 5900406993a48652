package header

import (
	"encoding/binary"
	"math/bits"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// A partial sum is the one's complement sum of 16-bit words in network order,
// folded to 16 bits and not complemented (RFC 1071). The checksum field of a
// packet holds the complement of the sum over everything it covers.

// Sum adds the bytes of b, the first being the high byte of a word, to the
// partial sum initial. A last odd byte counts as a word padded with zero.
func Sum(b []byte, initial uint16) uint16 {
	// Words are added in memory order and swapped once at the end, which
	// one's complement arithmetic allows (RFC 1071 section 2 B).
	var s0, s1, c0, c1 uint64
	le := binary.LittleEndian
	for len(b) >= 128 {
		p := b[:128:128]
		s0, c0 = bits.Add64(s0, le.Uint64(p[0:8]), 0)
		s0, c0 = bits.Add64(s0, le.Uint64(p[8:16]), c0)
		s0, c0 = bits.Add64(s0, le.Uint64(p[16:24]), c0)
		s0, c0 = bits.Add64(s0, le.Uint64(p[24:32]), c0)
		s0, c0 = bits.Add64(s0, le.Uint64(p[32:40]), c0)
		s0, c0 = bits.Add64(s0, le.Uint64(p[40:48]), c0)
		s0, c0 = bits.Add64(s0, le.Uint64(p[48:56]), c0)
		s0, c0 = bits.Add64(s0, le.Uint64(p[56:64]), c0)
		s0 += c0
		s1, c1 = bits.Add64(s1, le.Uint64(p[64:72]), 0)
		s1, c1 = bits.Add64(s1, le.Uint64(p[72:80]), c1)
		s1, c1 = bits.Add64(s1, le.Uint64(p[80:88]), c1)
		s1, c1 = bits.Add64(s1, le.Uint64(p[88:96]), c1)
		s1, c1 = bits.Add64(s1, le.Uint64(p[96:104]), c1)
		s1, c1 = bits.Add64(s1, le.Uint64(p[104:112]), c1)
		s1, c1 = bits.Add64(s1, le.Uint64(p[112:120]), c1)
		s1, c1 = bits.Add64(s1, le.Uint64(p[120:128]), c1)
		s1 += c1
		b = b[128:]
	}
	s0, c0 = bits.Add64(s0, s1, 0)
	s0 += c0
	for len(b) >= 8 {
		s0, c0 = bits.Add64(s0, le.Uint64(b[:8]), 0)
		s0 += c0
		b = b[8:]
	}
	var tail uint64
	if len(b) >= 4 {
		tail = uint64(le.Uint32(b[:4]))
		b = b[4:]
	}
	if len(b) >= 2 {
		tail += uint64(le.Uint16(b[:2]))
		b = b[2:]
	}
	if len(b) == 1 {
		tail += uint64(b[0])
	}
	s0, c0 = bits.Add64(s0, tail, 0)
	s0 += c0
	return Fold(uint64(bits.ReverseBytes16(Fold(s0))) + uint64(initial))
}

// Fold reduces a sum of 16-bit words to 16 bits by adding the carries back.
func Fold(s uint64) uint16 {
	s = s>>32 + s&0xffffffff
	s = s>>32 + s&0xffffffff
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return uint16(s)
}

// SumVecs is [Sum] over the n bytes of vs that start at off, or fewer where vs
// ends first. Pieces may have odd lengths.
func SumVecs(vs []iov.Vec, off, n int, initial uint16) uint16 {
	sum, odd := initial, false
	for i := range vs {
		if n <= 0 {
			break
		}
		l := int(vs[i].Len)
		if off >= l {
			off -= l
			continue
		}
		take := min(l-off, n)
		b := vs[i].Bytes()[off : off+take]
		off = 0
		n -= take
		part := Sum(b, 0)
		if odd {
			// The piece starts in the middle of a word.
			part = bits.ReverseBytes16(part)
		}
		sum = Fold(uint64(sum) + uint64(part))
		odd = odd != (take&1 == 1)
	}
	return sum
}

// PseudoSum returns the partial sum of the pseudo-header of TCP, UDP and
// ICMPv6: addresses, protocol and length of header and data in bytes (RFC 9293
// section 3.1, RFC 8200 section 8.1).
//
// IPv4 and IPv6 need no distinction: the prefix of a v4-mapped address adds
// 0xffff, which is zero in one's complement.
func PseudoSum(src, dst *Addr, proto uint8, length uint32) uint16 {
	s, c := bits.Add64(be.Uint64(src[0:8]), be.Uint64(src[8:16]), 0)
	s, c = bits.Add64(s, be.Uint64(dst[0:8]), c)
	s, c = bits.Add64(s, be.Uint64(dst[8:16]), c)
	s, c = bits.Add64(s, uint64(proto)+uint64(length), c)
	return Fold(s>>32 + s&0xffffffff + c)
}

// UpdateChecksum returns what a checksum field becomes when one 16-bit word
// that it covers changes (RFC 1624 section 3, eqn. 3).
func UpdateChecksum(field, oldWord, newWord uint16) uint16 {
	return ^Fold(uint64(^field) + uint64(^oldWord) + uint64(newWord))
}

// NonZero turns a checksum of 0 into 0xffff, which means the same in one's
// complement. UDP needs it, since 0 says "not computed" there (RFC 768); TCP
// and ICMP do not mind.
func NonZero(field uint16) uint16 {
	if field == 0 {
		return 0xffff
	}
	return field
}
