package synth

import (
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// slotBytes is room for all headers of a frame.
const slotBytes = 128

// txRing is the transmit ring. Each frame has its headers in a slot of its
// own, and its payload in the pattern. Where the device does not complete
// checksums, the payload is copied behind the headers: Linux has no
// scatter-gather then, and passt takes such frames in one piece only.
type txRing struct {
	q      *vutest.Queue
	addr   uint64
	mem    []byte
	stride int      // bytes of a slot
	linear bool     // frames are in one piece
	holds  []held   // by slot, where frames are in one piece
	slots  []uint16 // those not in use
	slotOf []uint16 // by head
	bufs   [2]virtqtest.Buffer
	added  bool // since the last kick
	full   bool // a frame found no room since the last reaping

	// Scratch of the segment being sent.
	seg     segment
	options [8]byte
}

// held is the part of the pattern that a slot holds already.
type held struct{ at, place, n int32 }

func (t *txRing) init(g *Guest, q *vutest.Queue) (err error) {
	t.q = q
	n := g.cfg.RingSize
	t.stride, t.linear = slotStride(&g.cfg, g.Features)
	t.holds = make([]held, n)
	bytes := uint64(n) * uint64(t.stride)
	if t.addr, err = g.mem.Alloc(bytes, slotBytes); err != nil {
		return err
	}
	t.mem = g.mem.Bytes(t.addr, bytes)
	t.slotOf = make([]uint16, n)
	for i := n - 1; i >= 0; i-- {
		t.slots = append(t.slots, uint16(i))
	}
	t.callsOff(g)
	return nil
}

// slotStride is how large a slot is, and whether it holds the payload too.
func slotStride(cfg *Config, features uint64) (bytes int, linear bool) {
	if features&header.FeatureCsum != 0 {
		return slotBytes, false
	}
	return (slotBytes + cfg.MTU + slotBytes - 1) &^ (slotBytes - 1), true
}

// callsOff leaves calls to the times when they are needed.
func (t *txRing) callsOff(g *Guest) {
	if !g.cfg.TxCalls {
		t.q.DisableCalls()
	}
}

// slot returns the header room of the next frame, or nil if the ring is full.
// A frame without payload takes one descriptor, others up to two.
func (t *txRing) slot() []byte {
	if len(t.slots) == 0 || t.q.Free() < 2 {
		t.full = true
		return nil
	}
	return t.mem[int(t.slots[len(t.slots)-1])*t.stride:][:slotBytes]
}

// send sends the frame whose headers were written to the slot: their length,
// and the part of the pattern that is its payload.
func (g *Guest) send(headers, place, n int) error {
	t := &g.tx
	s := t.slots[len(t.slots)-1]
	t.bufs[0] = virtqtest.Buffer{Addr: t.addr + uint64(s)*uint64(t.stride), Len: uint32(headers)}
	t.bufs[1] = virtqtest.Buffer{Addr: g.payload.addr + uint64(place), Len: uint32(n)}
	bufs := t.bufs[:]
	if n == 0 || t.linear {
		bufs = bufs[:1]
	}
	if n > 0 && t.linear {
		t.bufs[0].Len += uint32(n)
		if h := (held{int32(headers), int32(place), int32(n)}); t.holds[s] != h {
			copy(t.mem[int(s)*t.stride+headers:][:n], g.payload.mem[place:])
			t.holds[s] = h
		}
	}
	head, err := t.q.Add(bufs, nil)
	if err != nil {
		return fmt.Errorf("add a frame: %w", err)
	}
	t.slots = t.slots[:len(t.slots)-1]
	t.slotOf[head] = s
	t.added = true
	g.Counters.FramesSent++
	return nil
}

// reap takes back the frames that the device is done with.
func (t *txRing) reap() (n int, err error) {
	for {
		u, ok, err := t.q.Reap()
		if err != nil || !ok {
			return n, err
		}
		n++
		t.slots = append(t.slots, t.slotOf[u.Head])
		t.full = false
	}
}

// idle says that the device has every frame behind it.
func (t *txRing) idle() bool { return len(t.slots) == len(t.slotOf) }

// flush shows the device what was added.
func (g *Guest) flush() error {
	if !g.tx.added {
		return nil
	}
	g.tx.added = false
	return g.kick(g.tx.q)
}

// kick publishes what was added to q, and kicks if the device wants that.
func (g *Guest) kick(q *vutest.Queue) error {
	if !q.Driver.Kick() {
		return nil
	}
	g.Counters.Kicks++
	return q.ForceKick()
}
