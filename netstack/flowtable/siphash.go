package flowtable

import "math/bits"

// sipKey is the 128-bit secret of one table.
type sipKey struct{ k0, k1 uint64 }

// hash is SipHash-1-3 (Aumasson and Bernstein, 2012) over the 37 bytes of k in
// the order of its fields, words in little-endian order. One compression round
// is what hash tables use it with: enough against collisions made on purpose by
// somebody who never sees a hash.
func (s sipKey) hash(k *Key) uint64 {
	v0 := s.k0 ^ 0x736f6d6570736575
	v1 := s.k1 ^ 0x646f72616e646f6d
	v2 := s.k0 ^ 0x6c7967656e657261
	v3 := s.k1 ^ 0x7465646279746573
	m0, m1, m2, m3, m4 := k.words()
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^m0)
	v0, v1, v2, v3 = sipRound(v0^m0, v1, v2, v3^m1)
	v0, v1, v2, v3 = sipRound(v0^m1, v1, v2, v3^m2)
	v0, v1, v2, v3 = sipRound(v0^m2, v1, v2, v3^m3)
	v0, v1, v2, v3 = sipRound(v0^m3, v1, v2, v3^m4)
	v0 ^= m4
	v2 ^= 0xff
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (_, _, _, _ uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
