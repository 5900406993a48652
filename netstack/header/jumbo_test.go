package header

import "testing"

// TestPutJumbo: what is written is read back with its length, whether it fits the
// length field or not.
func TestPutJumbo(t *testing.T) {
	for _, data := range []int{1, 65535 - JumboLen - TCPLen, 65536 - JumboLen - TCPLen, 200_000, 512 << 10} {
		ip := IP{Src: Addr{0: 0xfd, 15: 1}, Dst: Addr{0: 0xfd, 15: 2}, Proto: ProtoHopByHop, TTL: 64}
		var b [MaxHeaders]byte
		behind := JumboLen + TCPLen + data
		n := PutEth(b[:], MAC{}, MAC{}, EtherTypeIPv6)
		n += PutIPv6(b[n:], &ip, behind)
		n += PutJumbo(b[n:], ProtoTCP, behind)
		n += PutTCP(b[n:], &TCPFields{SrcPort: 1, DstPort: 2}, 0)
		var p Packet
		if why := Parse(&p, b[:], n+data); why != OK {
			t.Fatalf("%d bytes: %v", data, why)
		}
		if p.Proto != ProtoTCP || p.Payload != n || p.End != n+data {
			t.Errorf("%d bytes: %+v", data, p)
		}
		// A frame with padding behind it: only the headers say where it ends.
		if why := Parse(&p, b[:], n+data+10); why != OK || p.End != n+data {
			t.Errorf("%d bytes, padded: %v, ends at %d", data, why, p.End)
		}
	}
}
