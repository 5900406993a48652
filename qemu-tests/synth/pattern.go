package synth

// patternBytes is the period of the payload of every stream. The low 16 bits
// of a sequence number are the place in it.
const patternBytes = 1 << 16

// Pattern fills b with what a guest sends from byte offset of a stream on.
// Datagrams begin at offset 0.
func Pattern(b []byte, offset uint64) {
	for i := range b {
		b[i] = patternByte(uint16(offset + uint64(i)))
	}
}

// patternByte mixes the position, so that a slip by any distance shows.
func patternByte(i uint16) byte {
	x := uint32(i)*0x9e3779b1 + 0x7f4a7c15
	x ^= x >> 15
	x *= 0x85ebca6b
	return byte(x >> 13)
}

// payload is the pattern, twice in a row, in guest memory, with the sums that
// give the checksum of any part of it.
type payload struct {
	addr uint64
	mem  []byte
	// sums[i] is the sum of the first i bytes as big-endian words. The whole
	// is just under 2^32.
	sums [2*patternBytes + 1]uint32
}

func (p *payload) init(addr uint64, mem []byte) {
	p.addr, p.mem = addr, mem
	for i := range 2 * patternBytes {
		v := patternByte(uint16(i))
		mem[i] = v
		p.sums[i+1] = p.sums[i] + uint32(v)<<(8*(^i&1))
	}
}

// sum returns the unfolded checksum of n bytes from place on (RFC 1071).
func (p *payload) sum(place, n int) uint32 {
	s := p.sums[place+n] - p.sums[place]
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	if place&1 != 0 {
		s = s>>8 | s&0xff<<8
	}
	return s
}

// fold makes a checksum of a sum, not yet complemented.
func fold(s uint32) uint16 {
	s = s>>16 + s&0xffff
	return uint16(s>>16 + s&0xffff)
}
