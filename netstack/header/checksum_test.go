package header

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// naiveSum is RFC 1071 section 4.1 word for word.
func naiveSum(b []byte, initial uint16) uint16 {
	s := uint32(initial)
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		s += w
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// sameSum compares partial sums: 0 and 0xffff are both zero.
func sameSum(a, b uint16) bool { return a%0xffff == b%0xffff }

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestSumMatchesReference(t *testing.T) {
	mem := randomBytes(1200)
	ones := make([]byte, 1200)
	for i := range ones {
		ones[i] = 0xff
	}
	for _, src := range [][]byte{mem, ones, make([]byte, 1200)} {
		for n := 0; n <= 600; n++ {
			for _, start := range []int{0, 1, 7} {
				b := src[start : start+n]
				for _, initial := range []uint16{0, 1, 0x1234, 0xffff} {
					if got, want := Sum(b, initial), naiveSum(b, initial); !sameSum(got, want) {
						t.Fatalf("Sum of %d bytes at %d, initial %#x = %#x, want %#x", n, start, initial, got, want)
					}
				}
			}
		}
	}
}

// TestSumExample is the worked example of RFC 1071 section 3.
func TestSumExample(t *testing.T) {
	if got := Sum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}, 0); got != 0xddf2 {
		t.Errorf("Sum = %#x, want 0xddf2", got)
	}
}

func TestSumVecsAnySplit(t *testing.T) {
	mem := randomBytes(777)
	r := rand.New(rand.NewPCG(2, 3))
	for range 2000 {
		var vs []iov.Vec
		for b := mem; len(b) > 0; {
			n := min(len(b), r.IntN(90))
			vs = append(vs, iov.Of(b[:n]))
			b = b[n:]
		}
		off := r.IntN(len(mem) + 10)
		n := r.IntN(len(mem) + 10)
		from := min(off, len(mem))
		want := naiveSum(mem[from:min(from+n, len(mem))], 0x4321)
		if got := SumVecs(vs, off, n, 0x4321); !sameSum(got, want) {
			t.Fatalf("SumVecs(%d pieces, %d, %d) = %#x, want %#x", len(vs), off, n, got, want)
		}
	}
}

func TestPseudoSum(t *testing.T) {
	src4, dst4 := AddrFrom4([4]byte{10, 1, 2, 3}), AddrFrom4([4]byte{192, 0, 2, 99})
	b := append(src4[12:], dst4[12:]...)
	b = append(b, 0, ProtoTCP, 0x12, 0x34)
	if got, want := PseudoSum(&src4, &dst4, ProtoTCP, 0x1234), naiveSum(b, 0); !sameSum(got, want) {
		t.Errorf("IPv4: %#x, want %#x", got, want)
	}
	src6, dst6 := Addr(randomBytes(16)), Addr(randomBytes(17)[1:])
	b = append(append([]byte(nil), src6[:]...), dst6[:]...)
	b = binary.BigEndian.AppendUint32(b, 200000)
	b = append(b, 0, 0, 0, ProtoUDP)
	if got, want := PseudoSum(&src6, &dst6, ProtoUDP, 200000), naiveSum(b, 0); !sameSum(got, want) {
		t.Errorf("IPv6: %#x, want %#x", got, want)
	}
}

func TestUpdateChecksum(t *testing.T) {
	b := randomBytes(40)
	before := ^Sum(b, 0)
	for _, w := range []uint16{0, 1, 0x8000, 0xffff, 0x1234} {
		c := append([]byte(nil), b...)
		oldWord := binary.BigEndian.Uint16(c[10:])
		binary.BigEndian.PutUint16(c[10:], w)
		if got, want := UpdateChecksum(before, oldWord, w), ^Sum(c, 0); !sameSum(got, want) {
			t.Errorf("word %#x: %#x, want %#x", w, got, want)
		}
	}
}

func TestComplete(t *testing.T) {
	src, dst := AddrFrom4([4]byte{10, 0, 0, 1}), AddrFrom4([4]byte{10, 0, 0, 2})
	for _, proto := range []uint8{ProtoTCP, ProtoUDP} {
		for n := 20; n < 90; n++ {
			frame := randomBytes(34 + n)
			SetPartialChecksum(frame[34:], &src, &dst, proto, n)
			split := append([]byte(nil), frame...)
			if !Complete(frame, 34, csumOffset(proto)) {
				t.Fatal("Complete refused a good range")
			}
			if !ChecksumOK(frame[34:], &src, &dst, proto) {
				t.Errorf("protocol %d, %d bytes: wrong checksum", proto, n)
			}
			// The same with the field itself cut in two.
			cut := 34 + csumOffset(proto) + 1
			vs := []iov.Vec{iov.Of(make([]byte, VnetLen)), iov.Of(split[:cut]), iov.Of(split[cut:])}
			if !CompleteVecs(vs, VnetLen, 34, csumOffset(proto)) {
				t.Fatal("CompleteVecs refused a good range")
			}
			if !ChecksumOK(split[34:], &src, &dst, proto) {
				t.Errorf("protocol %d, %d bytes in pieces: wrong checksum", proto, n)
			}
		}
	}
}

func TestCompleteRefusesOutside(t *testing.T) {
	frame := make([]byte, 60)
	for _, r := range [][2]int{{59, 0}, {34, 25}, {60, 0}, {-1, 16}, {0, -1}, {65535, 65535}} {
		if Complete(frame, r[0], r[1]) || CompleteVecs([]iov.Vec{iov.Of(frame)}, 0, r[0], r[1]) {
			t.Errorf("range %v accepted", r)
		}
	}
	if !Complete(frame, 34, 24) {
		t.Error("field at the very end refused")
	}
}

func TestSetChecksum(t *testing.T) {
	src, dst := Addr(randomBytes(16)), Addr(randomBytes(17)[:16])
	for _, proto := range []uint8{ProtoTCP, ProtoUDP, ProtoICMPv6, ProtoICMP} {
		b := randomBytes(101)
		SetChecksum(b, &src, &dst, proto)
		if !ChecksumOK(b, &src, &dst, proto) {
			t.Errorf("protocol %d: checksum does not verify", proto)
		}
		SetChecksumVecs(b[:20], []iov.Vec{iov.Of(b[20:41]), iov.Of(b[41:])}, &src, &dst, proto)
		if !ChecksumOK(b, &src, &dst, proto) {
			t.Errorf("protocol %d: checksum over pieces does not verify", proto)
		}
		b[50] ^= 1
		if ChecksumOK(b, &src, &dst, proto) {
			t.Errorf("protocol %d: flipped bit not noticed", proto)
		}
	}
	// RFC 768: no checksum, IPv4 only.
	b := make([]byte, 9)
	v4 := AddrFrom4([4]byte{1, 2, 3, 4})
	if !ChecksumOK(b, &v4, &v4, ProtoUDP) || ChecksumOK(b, &src, &dst, ProtoUDP) {
		t.Error("UDP checksum 0 must pass over IPv4 and fail over IPv6")
	}
	if ChecksumOK(b[:3], &v4, &v4, ProtoUDP) {
		t.Error("runt message passes")
	}
}

func FuzzSum(f *testing.F) {
	f.Add([]byte("0123456789"), uint16(3), uint8(3))
	f.Add(randomBytes(300), uint16(0xffff), uint8(129))
	f.Fuzz(func(t *testing.T, b []byte, initial uint16, cut uint8) {
		want := naiveSum(b, initial)
		if got := Sum(b, initial); !sameSum(got, want) {
			t.Errorf("Sum = %#x, want %#x", got, want)
		}
		k := min(int(cut), len(b))
		if got := SumVecs([]iov.Vec{iov.Of(b[:k]), iov.Of(b[k:])}, 0, len(b), initial); !sameSum(got, want) {
			t.Errorf("SumVecs cut at %d = %#x, want %#x", k, got, want)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	for _, bc := range []struct {
		name string
		n    int
	}{{"20", 20}, {"1460", 1460}, {"65536", 65536}} {
		mem := randomBytes(bc.n)
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(int64(bc.n))
			var s uint16
			for b.Loop() {
				s += Sum(mem, 0)
			}
			sink = s
		})
	}
}

func BenchmarkPseudoSum(b *testing.B) {
	src, dst := Addr(randomBytes(16)), Addr(randomBytes(17)[1:])
	var s uint16
	for b.Loop() {
		s += PseudoSum(&src, &dst, ProtoTCP, 1480)
	}
	sink = s
}

var sink uint16
