package reassembly

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

var (
	guest4, host4 = header.AddrFrom4([4]byte{10, 0, 2, 15}), header.AddrFrom4([4]byte{192, 0, 2, 1})
	guest6        = header.Addr{0: 0xfd, 15: 0x15}
	host6         = header.Addr{0: 0x20, 1: 0x01, 15: 1}
)

// udp returns a UDP datagram with n bytes of payload.
func udp(n int) []byte {
	b := make([]byte, header.UDPLen+n)
	header.PutUDP(b, 1000, 2000, n)
	for i := range n {
		b[header.UDPLen+i] = byte(i * 7)
	}
	return b
}

// fragment returns the frame that carries part, off bytes into a datagram.
func fragment(t *testing.T, v6 bool, id uint32, off int, more bool, part []byte) *link.Frame {
	t.Helper()
	b := make([]byte, header.VnetLen+header.EthLen, 100+len(part))
	eth := b[header.VnetLen:]
	var ip [header.IPv6Len + header.FragmentLen]byte
	var n int
	if v6 {
		header.PutEth(eth, header.MAC{1}, header.MAC{2}, header.EtherTypeIPv6)
		n = header.PutIPv6(ip[:], &header.IP{Src: guest6, Dst: host6, Proto: header.ProtoFragment, TTL: 9}, header.FragmentLen+len(part))
		n += header.PutFragment(ip[n:], header.ProtoUDP, id, off, more)
	} else {
		header.PutEth(eth, header.MAC{1}, header.MAC{2}, header.EtherTypeIPv4)
		n = header.PutIPv4(ip[:], &header.IP{Src: guest4, Dst: host4, Proto: header.ProtoUDP, TTL: 9, ID: uint16(id), FragOff: uint16(off), FragMore: more}, len(part))
	}
	b = append(append(b, ip[:n]...), part...)
	eth = b[header.VnetLen:]
	f := &link.Frame{Head: eth[:min(len(eth), header.MaxHeaders)], Bytes: len(eth)}
	if v := header.Parse(&f.Packet, f.Head, len(eth)); v != header.OK {
		t.Fatalf("fragment refused: %v", v)
	}
	// In two pieces, as guest memory would be.
	f.Vecs = []iov.Vec{iov.Of(b[:40]), iov.Of(b[40:])}
	return f
}

// pieces cuts a datagram into fragments of size bytes.
func pieces(t *testing.T, v6 bool, id uint32, datagram []byte, size int) []*link.Frame {
	t.Helper()
	var out []*link.Frame
	for off := 0; off < len(datagram); off += size {
		end := min(off+size, len(datagram))
		out = append(out, fragment(t, v6, id, off, end < len(datagram), datagram[off:end]))
	}
	return out
}

func payload(f *link.Frame) []byte {
	vs, n := f.AppendPayload(nil)
	b := make([]byte, n)
	iov.CopyOut(b, vs, 0)
	return b
}

func TestAnyOrder(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, tc := range []struct{ n, size int }{{9, 8}, {1473, 1480}, {3000, 1480}, {9000, 1448}, {65507, 1480}, {65507, 8000}} {
			datagram := udp(tc.n)
			r := New(0)
			for seed := range uint64(8) {
				parts := pieces(t, v6, uint32(seed)+7, datagram, tc.size)
				switch seed {
				case 0:
				case 1:
					for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
						parts[i], parts[j] = parts[j], parts[i]
					}
				default:
					rand.New(rand.NewPCG(seed, 0)).Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
				}
				var whole *link.Frame
				for i, p := range parts {
					whole = r.Add(p, 0)
					if (whole != nil) != (i == len(parts)-1) {
						t.Fatalf("v6 %v, %d bytes: whole after fragment %d of %d: %v", v6, tc.n, i+1, len(parts), whole != nil)
					}
				}
				p := &whole.Packet
				if p.V6 != v6 || p.SrcPort != 1000 || p.DstPort != 2000 || p.TTL != 9 || p.IsFragment() || p.SrcMAC != (header.MAC{2}) {
					t.Errorf("headers: %+v", p)
				}
				if !bytes.Equal(payload(whole), datagram[header.UDPLen:]) {
					t.Errorf("v6 %v, %d bytes: payload differs", v6, tc.n)
				}
				r.EndBatch()
			}
			if len(r.sets) != 1 || r.open != 0 {
				t.Errorf("%d sets, %d open, after one datagram at a time", len(r.sets), r.open)
			}
		}
	}
}

// TestDuplicate gives each fragment several times, before others come and after:
// the network may double them, and the datagram is whole all the same.
func TestDuplicate(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, n := range []int{40, 41, 5000, 65507} {
			d := udp(n)
			size := max(16, (n/7)&^7)
			parts := pieces(t, v6, 3, d, size)
			r := New(0)
			for i, p := range parts[:len(parts)-1] {
				for _, again := range parts[:i] {
					if r.Add(again, 0) != nil {
						t.Fatal("whole too early")
					}
				}
				for range 3 {
					if r.Add(p, 0) != nil {
						t.Fatal("whole too early")
					}
				}
			}
			whole := r.Add(parts[len(parts)-1], 0)
			if whole == nil || !bytes.Equal(payload(whole), d[header.UDPLen:]) {
				t.Errorf("v6 %v, %d bytes: not whole", v6, n)
			}
			if r.Counters.Duplicate == 0 || r.Counters.Invalid != 0 {
				t.Errorf("counters %+v", r.Counters)
			}
			// The last fragment first, and again at the end.
			r.EndBatch()
			r.Add(parts[len(parts)-1], 0)
			r.Add(parts[len(parts)-1], 0)
			for i, p := range parts[:len(parts)-1] {
				if whole := r.Add(p, 0); (whole != nil) != (i == len(parts)-2) {
					t.Errorf("v6 %v, %d bytes, last one first: whole after %d: %v", v6, n, i, whole != nil)
				}
			}
		}
	}
}

func TestOverlapCondemns(t *testing.T) {
	d := udp(40) // 48 bytes
	for _, v6 := range []bool{false, true} {
		frag := func(off, end int) *link.Frame { return fragment(t, v6, 1, off, end < len(d), d[off:end]) }
		for _, tc := range []struct {
			name string
			seq  []*link.Frame
		}{
			{"same place, other bytes", []*link.Frame{frag(0, 16), fragment(t, v6, 1, 0, true, d[16:32]), frag(16, 48)}},
			{"beginning again, longer", []*link.Frame{frag(0, 16), frag(0, 24), frag(24, 48)}},
			{"beginning again, shorter", []*link.Frame{frag(0, 24), frag(0, 16), frag(24, 48)}},
			{"two as one", []*link.Frame{frag(0, 16), frag(16, 32), frag(0, 32), frag(32, 48)}},
			{"last again, not as the last", []*link.Frame{frag(32, 48), fragment(t, v6, 1, 32, true, d[32:48]), frag(0, 32)}},
			{"again, as the last", []*link.Frame{frag(16, 32), fragment(t, v6, 1, 16, false, d[16:32]), frag(0, 16)}},
			{"one unit shared", []*link.Frame{frag(0, 16), frag(8, 32), frag(32, 48)}},
			{"inside another", []*link.Frame{frag(0, 32), frag(8, 16), frag(32, 48)}},
			{"around another", []*link.Frame{frag(8, 16), frag(0, 32), frag(32, 48)}},
			{"two ends", []*link.Frame{frag(40, 48), fragment(t, v6, 1, 16, false, d[16:24]), frag(0, 16), frag(16, 40)}},
			{"data beyond the end", []*link.Frame{fragment(t, v6, 1, 16, false, d[16:24]), frag(24, 40), frag(0, 16)}},
			{"end before data", []*link.Frame{frag(24, 40), fragment(t, v6, 1, 16, false, d[16:24]), frag(0, 16)}},
			{"end in the middle of data", []*link.Frame{frag(0, 32), fragment(t, v6, 1, 16, false, d[16:24])}},
		} {
			r := New(0)
			for _, f := range tc.seq {
				if r.Add(f, 0) != nil {
					t.Errorf("v6 %v, %s: delivered", v6, tc.name)
				}
			}
			if r.Counters.Invalid == 0 {
				t.Errorf("v6 %v, %s: not counted", v6, tc.name)
			}
		}
	}
}

func TestDatagramsStayApart(t *testing.T) {
	r := New(0)
	a, b := pieces(t, false, 1, udp(2000), 1480), pieces(t, false, 2, udp(2500), 1480)
	c := pieces(t, true, 1, udp(2100), 1480)
	for _, f := range []*link.Frame{a[0], b[1], c[1]} {
		if r.Add(f, 0) != nil {
			t.Fatal("whole too early")
		}
	}
	for i, f := range []*link.Frame{a[1], b[0], c[0]} {
		whole := r.Add(f, 0)
		if want := []int{2000, 2500, 2100}[i]; whole == nil || len(payload(whole)) != want {
			t.Errorf("datagram %d is wrong", i)
		}
	}
	// All three are lent at once: none may have been overwritten.
	if r.lent != 3 {
		t.Errorf("%d frames lent, want 3", r.lent)
	}
}

func TestBounded(t *testing.T) {
	r := New(16)
	for id := range uint32(1000) {
		r.Add(pieces(t, false, id, udp(2000), 1480)[0], int64(id))
	}
	if len(r.sets) != 16 || r.Counters.Evicted != 1000-16 {
		t.Errorf("%d sets, %d evicted", len(r.sets), r.Counters.Evicted)
	}
	// A whole one still gets through, and so do the newest incomplete ones.
	for i, f := range pieces(t, true, 5, udp(2000), 1480) {
		if (r.Add(f, 1000) != nil) != (i == 1) {
			t.Fatal("no reassembly under pressure")
		}
	}
	if r.Add(pieces(t, false, 999, udp(2000), 1480)[1], 1000) == nil {
		t.Error("newest datagram was evicted")
	}
	r.EndBatch()
	if got, want := r.NextDeadlineMs(), int64(985+timeoutMs); got != want {
		t.Errorf("next deadline %d, want %d", got, want)
	}
	r.Advance(1000 + timeoutMs)
	if r.open != 0 || len(r.sets) != 0 || r.NextDeadlineMs() != -1 || r.Counters.Expired == 0 {
		t.Errorf("after the timeout: %d open, %d sets, counters %+v", r.open, len(r.sets), r.Counters)
	}
}

func TestTimer(t *testing.T) {
	r := New(0)
	parts := pieces(t, false, 1, udp(2000), 1480)
	r.Add(parts[0], 100)
	r.Advance(100 + timeoutMs - 1)
	if r.Counters.Expired != 0 {
		t.Error("expired too early")
	}
	r.Advance(100 + timeoutMs)
	if r.Add(parts[1], 100+timeoutMs) != nil {
		t.Error("fragments from before and after the timeout were joined")
	}
}

// TestBrokenTransport gives fragments whose sum is not a valid datagram.
func TestBrokenTransport(t *testing.T) {
	d := udp(40)
	d[4], d[5] = 0xff, 0xff // UDP length
	r := New(0)
	for _, f := range pieces(t, false, 1, d, 24) {
		if r.Add(f, 0) != nil {
			t.Error("broken datagram delivered")
		}
	}
	if r.open != 0 || r.Counters.Invalid != 1 {
		t.Errorf("%d open, counters %+v", r.open, r.Counters)
	}
	// 65535 bytes behind an IPv4 header do not fit an IPv4 packet.
	last := fragment(t, false, 2, 65520, false, make([]byte, 15))
	r.Add(last, 0)
	if r.open != 0 {
		t.Error("oversize datagram is kept")
	}
}

func TestAllocatesNothing(t *testing.T) {
	r := New(0)
	parts := pieces(t, false, 1, udp(9000), 1480)
	parts = append([]*link.Frame{parts[0]}, parts...)
	if n := testing.AllocsPerRun(100, func() {
		for _, f := range parts {
			r.Add(f, 0)
		}
		r.EndBatch()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// FuzzAdd adds fragments of one datagram at random places: what is delivered
// must be made of what was sent.
func FuzzAdd(f *testing.F) {
	f.Add([]byte{0, 2, 1, 0, 2, 1, 2, 2, 0})
	f.Add([]byte{0, 2, 1, 2, 2, 0})
	f.Add([]byte{2, 2, 0, 0, 2, 1})
	f.Add([]byte{0, 255, 1, 255, 255, 0, 100, 3, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		d := udp(8000)
		r := New(2)
		for ; len(script) >= 3; script = script[3:] {
			off, n, more := int(script[0])*8, int(script[1])*8, script[2]&1 == 1
			if off+n > len(d) || n == 0 {
				continue
			}
			header.PutUDP(d, 1000, 2000, max(0, off+n-header.UDPLen))
			whole := r.Add(fragment(t, script[2]&2 != 0, uint32(script[2]>>2&3), off, more, d[off:off+n]), int64(script[2]))
			if whole == nil {
				continue
			}
			got := payload(whole)
			if !bytes.Equal(got, d[header.UDPLen:header.UDPLen+len(got)]) {
				t.Fatal("payload was made up")
			}
			r.EndBatch()
		}
		if len(r.sets) > 2 || r.open > 2 || r.open < 0 {
			t.Fatalf("%d sets, %d open", len(r.sets), r.open)
		}
	})
}
