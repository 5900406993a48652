package datagram

import (
	"bytes"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/reassembly"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

var (
	guest4, host4 = header.AddrFrom4([4]byte{10, 0, 2, 15}), header.AddrFrom4([4]byte{192, 0, 2, 1})
	guest6        = header.Addr{0: 0xfd, 15: 0x15}
	host6         = header.Addr{0: 0x20, 1: 0x01, 15: 1}
)

// world is a Writer with a guest behind it.
type world struct {
	link  link.Link
	queue *framequeue.Queue
	guest *ringtest.Guest
	w     *Writer
}

func newWorld(t testing.TB, mtu, buffers, size int, mergeable bool) *world {
	x := &world{link: link.Link{OurMAC: header.MAC{2, 1}, GuestMAC: header.MAC{2, 2}, MTU: mtu}, queue: framequeue.New()}
	x.guest = ringtest.New(t, x.queue, buffers, size, mergeable)
	x.w = NewWriter(&x.link, x.queue)
	return x
}

func udpPacket(v6 bool) *Packet {
	p := &Packet{Src: host4, Dst: guest4, Proto: header.ProtoUDP}
	if v6 {
		p.Src, p.Dst = host6, guest6
	}
	header.PutUDP(p.L4[:], 53, 4000, 0)
	return p
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// receive plays the system call: it puts a datagram where Open said.
func (x *world) receive(t testing.TB, p *Packet, expect int, payload []byte) bool {
	t.Helper()
	vs, ok := x.w.Open(!p.Dst.Is4(), expect)
	if !ok {
		return false
	}
	if iov.CopyIn(vs, 0, payload) != len(payload) {
		t.Fatalf("Open gave room for %d bytes only", iov.Len(vs))
	}
	x.w.Finish(p, len(payload))
	x.queue.Flush()
	return true
}

// whole puts the frames the guest received together again.
func (x *world) whole(t *testing.T) (payload []byte) {
	t.Helper()
	r := reassembly.New(0)
	for i, f := range x.guest.Frames {
		p := x.guest.Parse(i)
		if large := len(f.Data) > x.link.MTU+header.EthLen; large != (f.Vnet.GSOType == header.GSOUDP) {
			t.Errorf("frame %d has %d bytes, MTU %d, %+v", i, len(f.Data), x.link.MTU, f.Vnet)
		} else if large {
			x.checkLarge(t, i)
		}
		if !p.IsFragment() {
			if len(x.guest.Frames) != 1 || p.SrcPort != 53 || p.DstPort != 4000 || p.DstMAC != x.link.GuestMAC || p.SrcMAC != x.link.OurMAC {
				t.Fatalf("frame %d of %d: %+v", i, len(x.guest.Frames), p)
			}
			return f.Data[p.Payload:p.End]
		}
		fr := &link.Frame{
			Packet: p, Head: f.Data[:min(len(f.Data), header.MaxHeaders)], Bytes: len(f.Data),
			Vecs: []iov.Vec{iov.Of(make([]byte, header.VnetLen)), iov.Of(f.Data)},
		}
		if w := r.Add(fr, 0); w != nil {
			q := &w.Packet
			if !header.ChecksumOK(w.Vecs[0].Bytes()[header.VnetLen:][q.L4:q.End], &q.Src, &q.Dst, q.Proto) {
				t.Error("checksum of the reassembled datagram is wrong")
			}
			return w.Vecs[0].Bytes()[header.VnetLen+q.Payload:][:q.End-q.Payload]
		}
	}
	t.Fatalf("no whole datagram in %d frames", len(x.guest.Frames))
	return nil
}

// checkLarge checks what frame i says of how to fragment it.
func (x *world) checkLarge(t *testing.T, i int) {
	t.Helper()
	f, p := x.guest.Frames[i], x.guest.Parse(i)
	room := x.link.MTU - header.IPv4Len
	if p.V6 {
		room = x.link.MTU - header.IPv6Len - header.FragmentLen
	}
	if n := int(f.Vnet.GSOSize); n > room || n <= room-8 || n%8 != 0 || int(f.Vnet.HdrLen) != p.Payload || p.Proto != header.ProtoUDP {
		t.Errorf("MTU %d, v6 %v: %+v", x.link.MTU, p.V6, f.Vnet)
	}
	if p.DF {
		t.Error("may not be fragmented")
	}
}

const large = header.FeatureGuestCsum | header.FeatureGuestUFO

func TestSizes(t *testing.T) {
	for _, mtu := range []int{1280, 1500, 9000, 65520} {
		for _, v6 := range []bool{false, true} {
			for _, features := range []uint64{0, header.FeatureGuestCsum, header.FeatureGuestUFO, large} {
				for _, n := range []int{0, 1, 1232, 1452, 1472, 1473, 3000, 9000, 65507} {
					for _, expect := range []int{0, n} {
						x := newWorld(t, mtu, 256, 1536, true)
						x.link.Features = features
						want := pattern(n)
						if !x.receive(t, udpPacket(v6), expect, want) {
							t.Fatal("no room in a full ring")
						}
						if got := x.whole(t); !bytes.Equal(got, want) {
							t.Errorf("MTU %d, v6 %v, %d bytes, expected %d: got %d bytes back", mtu, v6, n, expect, len(got))
						}
						if features == large && len(x.guest.Frames) != 1 {
							t.Errorf("MTU %d, v6 %v, %d bytes: %d frames", mtu, v6, n, len(x.guest.Frames))
						}
						c := x.w.Counters
						if c.Datagrams != 1 || c.Bytes != uint64(n) || c.Dropped+c.Held != 0 {
							t.Errorf("counters %+v", c)
						}
						if expect == n && (n+48 <= mtu || features == large) && c.Copied != 0 {
							t.Errorf("%d bytes, as expected, were copied once more", n)
						}
					}
				}
			}
		}
	}
}

func TestChecksumWithoutOffload(t *testing.T) {
	x := newWorld(t, 1500, 8, 1536, true)
	x.receive(t, udpPacket(false), 0, pattern(100))
	if x.guest.Frames[0].Vnet.Flags != 0 {
		t.Error("checksum left to a guest that did not offer")
	}
	x.guest.Parse(0) // verifies it
	x.link.Features = header.FeatureGuestCsum
	x.receive(t, udpPacket(true), 0, pattern(100))
	if x.guest.Frames[1].Vnet.Flags != header.VnetNeedsCsum {
		t.Error("checksum made for a guest that offered to")
	}
	x.guest.Parse(1)
}

// TestHeld gives a datagram that does not fit the ring: its fragments come as
// buffers do, once each, and nothing else before or spinning meanwhile.
func TestHeld(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		x := newWorld(t, 1500, 3, 1536, true)
		want := pattern(9000) // 7 fragments
		if !x.receive(t, udpPacket(v6), 0, want) {
			t.Fatal("Open refused")
		}
		if len(x.guest.Frames) != 3 || x.w.Counters.Held != 1 {
			t.Fatalf("%d frames, counters %+v", len(x.guest.Frames), x.w.Counters)
		}
		for added := 3; added < 7; added++ {
			if _, ok := x.w.Open(v6, 0); ok {
				t.Fatal("Open while a datagram is held: order would change")
			}
			if !x.queue.Starved() || x.queue.Arm() {
				t.Fatalf("with %d buffers: starved %v; Arm says there is more", added, x.queue.Starved())
			}
			x.link.NowMs += holdMs - 1 // the guest is slow, but goes on
			if x.w.Advance() {
				t.Fatal("given up although fragments go out")
			}
			x.guest.Add(1, 1536)
			if !x.queue.Arm() || !x.queue.Refill() {
				t.Fatal("queue does not notice new buffers")
			}
			if x.w.Refilled() != (added == 6) {
				t.Fatalf("with %d buffers: held is wrong", added+1)
			}
			x.queue.Flush()
			if len(x.guest.Frames) != added+1 {
				t.Fatalf("%d frames with %d buffers", len(x.guest.Frames), added+1)
			}
		}
		if got := x.whole(t); !bytes.Equal(got, want) {
			t.Error("payload differs")
		}
		if x.w.NextDeadlineMs() != -1 || x.w.Counters.Dropped != 0 || x.w.Counters.Datagrams != 1 {
			t.Errorf("deadline %d, counters %+v", x.w.NextDeadlineMs(), x.w.Counters)
		}
	}
}

// TestLargerThanTheRing has guests whose whole ring cannot hold the datagram.
func TestLargerThanTheRing(t *testing.T) {
	for _, c := range []struct {
		name                      string
		bytes, mtu, buffers, size int
		mergeable                 bool
	}{
		{"32 buffers", 65000, 1500, 32, 1536, true},
		{"32 buffers, not mergeable", 65000, 1500, 32, 1536, false},
		{"16 small buffers", 9000, 1500, 16, 700, true},
		{"one frame at a time", 65507, 9000, 2, 8192, true},
	} {
		for i := range 4 {
			v6 := i%2 != 0
			x := newWorld(t, c.mtu, c.buffers, c.size, c.mergeable)
			x.link.Features = []uint64{0, large}[i/2]
			want := pattern(c.bytes)
			x.receive(t, udpPacket(v6), 0, want)
			for rounds := 0; x.w.NextDeadlineMs() >= 0; rounds++ {
				if rounds > 100 {
					t.Fatalf("%s, v6 %v: still held, counters %+v", c.name, v6, x.w.Counters)
				}
				x.guest.Add(c.buffers-x.guest.Pending(), c.size)
				x.queue.Refill()
				x.w.Refilled()
				x.queue.Flush()
			}
			if got := x.whole(t); !bytes.Equal(got, want) {
				t.Errorf("%s, v6 %v: payload differs", c.name, v6)
			}
			if x.w.Counters.Dropped != 0 || x.queue.Counters.Dropped != 0 {
				t.Errorf("%s, v6 %v: counters %+v", c.name, v6, x.w.Counters)
			}
		}
	}
}

// TestTooSmallForAFragment: where no buffer can hold one, the datagram goes at
// once, and as a whole.
func TestTooSmallForAFragment(t *testing.T) {
	x := newWorld(t, 1500, 16, 600, false)
	x.receive(t, udpPacket(false), 0, pattern(9000))
	if len(x.guest.Frames) != 0 || x.w.Counters.Dropped != 1 || x.w.NextDeadlineMs() != -1 {
		t.Errorf("%d frames, deadline %d, counters %+v", len(x.guest.Frames), x.w.NextDeadlineMs(), x.w.Counters)
	}
}

func TestHeldTooLong(t *testing.T) {
	x := newWorld(t, 1500, 3, 1536, true)
	x.link.NowMs = 50
	x.receive(t, udpPacket(true), 0, pattern(9000))
	if got := x.w.NextDeadlineMs(); got != 50+holdMs {
		t.Errorf("deadline %d", got)
	}
	x.link.NowMs = 50 + holdMs - 1
	if x.w.Advance() {
		t.Error("dropped too early")
	}
	x.link.NowMs++
	if !x.w.Advance() || x.w.Counters.Dropped != 1 {
		t.Error("not dropped")
	}
	x.guest.Frames = nil
	x.guest.Add(3, 1536)
	if !x.queue.Refill() || !x.w.Refilled() {
		t.Error("no way to go on")
	}
	if !x.receive(t, udpPacket(true), 0, pattern(10)) || len(x.whole(t)) != 10 {
		t.Error("next datagram does not get through")
	}
	if x.w.Counters.Datagrams != 1 {
		t.Errorf("counters %+v", x.w.Counters)
	}
}

func TestEmptyRing(t *testing.T) {
	x := newWorld(t, 1500, 0, 0, true)
	if _, ok := x.w.Open(false, 100); ok {
		t.Error("Open without buffers")
	}
	if !x.queue.Starved() || x.queue.Arm() {
		t.Error("queue does not wait for buffers")
	}
}

// TestCancelGivesBack opens and cancels without end: the ring must not shrink.
func TestCancelGivesBack(t *testing.T) {
	x := newWorld(t, 1500, 4, 1536, true)
	for range 100 {
		if _, ok := x.w.Open(false, 0); !ok {
			t.Fatal("no room")
		}
		x.w.Cancel()
	}
	if x.guest.Pending() != 4 {
		t.Errorf("%d buffers left of 4", x.guest.Pending())
	}
}

// TestNotMergeable has a driver whose frames take one buffer each.
func TestNotMergeable(t *testing.T) {
	x := newWorld(t, 1500, 16, 1536, false)
	x.receive(t, udpPacket(false), 0, pattern(1472))
	if got := x.whole(t); len(got) != 1472 {
		t.Errorf("%d bytes", len(got))
	}
	x.guest.Frames = nil
	x.receive(t, udpPacket(false), 0, pattern(4000))
	if got := x.whole(t); len(got) != 4000 {
		t.Errorf("%d bytes", len(got))
	}
	// Buffers that cannot hold a frame of the MTU: dropped, never truncated.
	y := newWorld(t, 1500, 16, 600, false)
	y.receive(t, udpPacket(false), 0, pattern(1000))
	if len(y.guest.Frames) != 0 || y.w.Counters.Dropped != 1 {
		t.Errorf("%d frames, counters %+v", len(y.guest.Frames), y.w.Counters)
	}
	y.receive(t, udpPacket(false), 0, pattern(100))
	if got := y.whole(t); len(got) != 100 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestSend(t *testing.T) {
	x := newWorld(t, 1500, 64, 1536, true)
	data := pattern(5000)
	vs := []iov.Vec{iov.Of(data[:1]), iov.Of(data[1:700]), iov.Of(data[700:])}
	if !x.w.Send(udpPacket(true), vs, 5000) {
		t.Fatal("refused")
	}
	x.queue.Flush()
	if got := x.whole(t); !bytes.Equal(got, data) {
		t.Error("payload differs")
	}
}

func TestAllocatesNothing(t *testing.T) {
	x := newWorld(t, 1500, 4096, 1536, true)
	p, data := udpPacket(false), pattern(1000)
	x.queue.SetFlushFrames(1 << 30) // the guest of the test allocates when it sees frames
	if n := testing.AllocsPerRun(200, func() {
		vs, ok := x.w.Open(false, 0)
		if !ok {
			t.Fatal("no room")
		}
		iov.CopyIn(vs, 0, data)
		x.w.Finish(p, len(data))
	}); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
