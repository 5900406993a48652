package datagram

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/reassembly"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const segments = header.FeatureGuestCsum | header.FeatureGuestUSO4 | header.FeatureGuestUSO6

// all takes the datagrams apart that the guest received, whatever frames they came in.
func (x *world) all(t *testing.T) (out [][]byte) {
	t.Helper()
	r := reassembly.New(0)
	for i, f := range x.guest.Frames {
		p := x.guest.Parse(i)
		payload := f.Data[p.Payload:p.End]
		switch {
		case f.Vnet.GSOType == header.GSOUDPL4:
			if !x.link.Has(segments) || f.Vnet.Flags != header.VnetNeedsCsum || int(f.Vnet.HdrLen) != p.Payload || len(payload) <= int(f.Vnet.GSOSize) || int(f.Vnet.GSOSize) > x.w.unfragmented(p.V6) {
				t.Fatalf("frame %d of %d bytes: %+v", i, len(f.Data), f.Vnet)
			}
			for ; len(payload) > 0; payload = payload[min(len(payload), int(f.Vnet.GSOSize)):] {
				out = append(out, payload[:min(len(payload), int(f.Vnet.GSOSize))])
			}
			continue
		case f.Vnet.GSOType == header.GSOUDP:
			if !x.link.Has(large) {
				t.Fatalf("frame %d of %d bytes: %+v", i, len(f.Data), f.Vnet)
			}
			x.checkLarge(t, i)
			out = append(out, payload)
			continue
		case len(f.Data) > x.link.MTU+header.EthLen:
			t.Fatalf("frame %d has %d bytes, MTU %d", i, len(f.Data), x.link.MTU)
		case !p.IsFragment():
			out = append(out, payload)
			continue
		}
		fr := &link.Frame{
			Packet: p, Head: f.Data[:min(len(f.Data), header.MaxHeaders)], Bytes: len(f.Data),
			Vecs: []iov.Vec{iov.Of(make([]byte, header.VnetLen)), iov.Of(f.Data)},
		}
		if w := r.Add(fr, 0); w != nil {
			b := w.Vecs[0].Bytes()[header.VnetLen:]
			out = append(out, bytes.Clone(b[w.Packet.Payload:w.Packet.End]))
			r.EndBatch()
		}
	}
	return out
}

// settle gives the guest's buffers back until nothing is held.
func (x *world) settle(t *testing.T, buffers, size int) {
	t.Helper()
	for n := 0; x.w.held; n++ {
		if n > 1000 {
			t.Fatalf("still held: %+v", x.w.Counters)
		}
		x.guest.Add(buffers-x.guest.Pending(), size)
		x.queue.Refill()
		x.w.Refilled()
		x.queue.Flush()
	}
}

func same(t *testing.T, what string, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d datagrams, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("%s: datagram %d has %d bytes, want %d, or others", what, i, len(got[i]), len(want[i]))
		}
	}
}

var rings = []struct {
	name          string
	buffers, size int
	mergeable     bool
}{
	{"usual", 256, 1536, true},
	{"large buffers", 64, 65550, true},
	{"small buffers", 256, 200, true},
	{"few buffers", 5, 1536, true},
	{"few small buffers", 16, 700, true},
	{"not mergeable", 64, 1536, false},
}

// TestMany receives up to 16 datagrams with a call, as expected and not.
func TestMany(t *testing.T) {
	for _, sizes := range [][]int{
		{1000, 1000, 1000},
		{1000, 1000, 10, 1000},
		{1000, 0, 1, 0},
		{1000, 1001, 1472, 3000, 900, 1000},
		{5000, 1000, 65507, 7},
		{1, 1000},
	} {
		for _, ring := range rings {
			for _, v6 := range []bool{false, true} {
				for _, features := range []uint64{0, segments, segments | large} {
					x := newWorld(t, 1500, ring.buffers, ring.size, ring.mergeable)
					x.link.Features = features
					name := fmt.Sprintf("%v, %s, v6 %v, features %#x", sizes, ring.name, v6, features)
					var want [][]byte
					for i := 0; i < len(sizes); {
						n := x.w.OpenMany(v6, 1000, len(sizes)-i)
						if n == 0 {
							x.guest.Add(ring.buffers-x.guest.Pending(), ring.size)
							x.queue.Refill()
							continue
						}
						var ms []Message
						for s := range n {
							b := bytes.Repeat([]byte{byte(i + s + 1)}, sizes[i+s])
							if iov.CopyIn(x.w.Slot(s), 0, b) != len(b) {
								t.Fatalf("%s: slot %d is too small", name, s)
							}
							want = append(want, b)
							ms = append(ms, Message{len(b), len(b)})
						}
						i += n
						x.w.FinishMany(udpPacket(v6), ms)
						x.queue.Flush()
						x.settle(t, ring.buffers, ring.size)
					}
					same(t, name, x.all(t), want)
					if c := x.w.Counters; c.Datagrams != uint64(len(want)) || c.Dropped != 0 {
						t.Errorf("%s: counters %+v", name, c)
					}
				}
			}
		}
	}
}

// TestManyInPlace: datagrams of the size expected are not copied, nor those that are
// shorter, where a buffer holds one.
func TestManyInPlace(t *testing.T) {
	x := newWorld(t, 1500, 20, 1536, true)
	if n := x.w.OpenMany(false, 1000, 16); n != 16 {
		t.Fatalf("room for %d", n)
	}
	x.w.FinishMany(udpPacket(false), []Message{{1000, 1000}, {10, 10}, {1000, 1000}})
	x.queue.Flush()
	if c := x.w.Counters; c.Copied != 0 || len(x.guest.Frames) != 3 || x.guest.Pending() != 17 {
		t.Errorf("%d frames, %d buffers left, counters %+v", len(x.guest.Frames), x.guest.Pending(), c)
	}
}

// TestTrain: one frame where the guest cuts it, else one for each.
func TestTrain(t *testing.T) {
	for _, tc := range []struct{ bytes, size, expect int }{
		{3000, 1000, 0},
		{3001, 1000, 3001},
		{65000, 1452, 65000},
		{65507, 1400, 100},
		{600, 1, 600},
		{9000, 2000, 9000}, // larger than the guest's MTU
	} {
		for _, ring := range rings {
			for _, v6 := range []bool{false, true} {
				for _, features := range []uint64{0, header.FeatureGuestCsum, large, segments, segments | large} {
					x := newWorld(t, 1500, ring.buffers, ring.size, ring.mergeable)
					x.link.Features = features
					name := fmt.Sprintf("%+v, %s, v6 %v, features %#x", tc, ring.name, v6, features)
					data := pattern(tc.bytes)
					vs, ok := x.w.Open(v6, tc.expect)
					if !ok || iov.CopyIn(vs, 0, data) != len(data) {
						t.Fatalf("%s: no room", name)
					}
					x.w.FinishTrain(udpPacket(v6), len(data), tc.size)
					x.queue.Flush()
					x.settle(t, ring.buffers, ring.size)
					var want [][]byte
					for off := 0; off < len(data); off += tc.size {
						want = append(want, data[off:min(off+tc.size, len(data))])
					}
					same(t, name, x.all(t), want)
					c := x.w.Counters
					if c.Datagrams != uint64(len(want)) || c.Bytes != uint64(len(data)) || c.Dropped != 0 {
						t.Errorf("%s: counters %+v", name, c)
					}
					if tc.expect == tc.bytes && features == segments && ring.name == "usual" && tc.size < 1500 && (c.Copied != 0 || c.Trains != 1) {
						t.Errorf("%s: copied, or in pieces: %+v", name, c)
					}
				}
			}
		}
	}
}

// TestTrainDropped counts every datagram of a train that cannot be held.
func TestTrainDropped(t *testing.T) {
	x := newWorld(t, 1500, 1, 1536, true)
	vs, _ := x.w.Open(false, 0)
	iov.CopyIn(vs, 0, pattern(5000))
	x.w.FinishTrain(udpPacket(false), 5000, 1000)
	if x.w.Counters.Datagrams != 1 || !x.w.held {
		t.Fatalf("counters %+v", x.w.Counters)
	}
	x.link.NowMs += holdMs
	if !x.w.Advance() || x.w.Counters.Dropped != 4 {
		t.Errorf("counters %+v", x.w.Counters)
	}
}

func TestManyAllocatesNothing(t *testing.T) {
	x := newWorld(t, 1500, 8192, 1536, true)
	x.queue.SetFlushFrames(1 << 30)
	p, ms := udpPacket(false), []Message{{1000, 1000}, {1000, 1000}, {900, 900}}
	if n := testing.AllocsPerRun(200, func() {
		if x.w.OpenMany(false, 1000, MaxMany) == 0 {
			t.Fatal("no room")
		}
		x.w.FinishMany(p, ms)
		x.w.Open(false, 0)
		x.w.FinishTrain(p, 3000, 1000)
	}); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
