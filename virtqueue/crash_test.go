package virtqueue_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// A device that is killed between any two writes of a Publish leaves a ring that
// a successor finishes: the driver gets back each chain once, and only what was
// returned, with the length that was.
func TestResumeAmidPublish(t *testing.T) {
	for _, tc := range []struct {
		name             string
		inOrder          bool
		writable, direct bool
	}{
		{"receive", false, true, false},
		{"receive direct", false, true, true},
		{"transmit", false, false, false},
		{"transmit direct", false, false, true},
		{"receive in order", true, true, false},
		{"receive in order, direct", true, true, true},
		{"transmit in order", true, false, false},
		{"transmit in order, direct", true, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			crashes := 0
			for seed := range uint64(100) {
				rng := rand.New(rand.NewPCG(seed, 4))
				cfg := virtqtest.Config{Packed: true, Size: 1 + uint16(seed%20), Indirect: !tc.direct, InOrder: tc.inOrder}
				v := newVictim(t, cfg, tc.writable, tc.direct, rng)
				for range 12 {
					crashes += v.life(seed)
				}
			}
			if crashes < 200 {
				t.Errorf("killed %d times only amid a Publish", crashes)
			}
		})
	}
}

// victim is a device that is killed again and again, with its driver.
type victim struct {
	t                *testing.T
	rng              *rand.Rand
	drv              *virtqtest.Driver
	q                *virtqueue.Queue
	writable, direct bool
	made             []uint16          // chains with the device, in order
	slots            map[uint16]int    // of each
	written          map[uint16]uint32 // of those returned
	at               int               // slot of the first of made
}

func newVictim(t *testing.T, cfg virtqtest.Config, writable, direct bool, rng *rand.Rand) *victim {
	v := &victim{
		t: t, rng: rng, writable: writable, direct: direct,
		slots: map[uint16]int{}, written: map[uint16]uint32{},
	}
	v.drv, v.q = pair(t, cfg, writable)
	return v
}

// life lets the driver add chains and the device return some; while it publishes
// them it is killed, and another one goes on. 1: it was amid the writes.
func (v *victim) life(seed uint64) int {
	v.fill()
	var returned []uint16
	for range v.rng.IntN(9) {
		vecs, token, err := v.q.Take(nil)
		if err != nil {
			break
		}
		head := v.made[len(returned)]
		if v.writable {
			// A predecessor may have written a length, and nothing else.
			v.written[head] = 1 + uint32(v.rng.IntN(int(vecs[0].Len)))
		} else {
			v.written[head] = 0
		}
		returned = append(returned, head)
		v.q.Return(token, v.written[head])
	}
	c := v.drv.QueueConfig(v.writable)
	before := slices.Clone(c.Desc)
	v.q.Publish()
	amid := v.tear(c.Desc, before, returned)

	c.NextAvail = 0
	at, err := virtqueue.Resume(c)
	if err != nil {
		v.t.Fatalf("seed %d: %v", seed, err)
	}
	c.NextAvail = at
	if v.q, err = virtqueue.New(c); err != nil {
		v.t.Fatal(err)
	}
	v.reap(seed)
	// Whatever was not returned is to be had again: all of it.
	for i := range v.made {
		if _, _, err := v.q.Take(nil); err != nil {
			v.t.Fatalf("seed %d: chain %d of %d is lost: %v", seed, i+1, len(v.made), err)
		}
	}
	v.q.Untake(len(v.made))
	return amid
}

// fill adds some chains.
func (v *victim) fill() {
	for range v.rng.IntN(8) {
		bufs := make([]virtqtest.Buffer, 1+v.rng.IntN(min(3, int(v.drv.Size()))))
		if v.writable && !v.direct {
			bufs = bufs[:1]
		}
		for i := range bufs {
			bufs[i] = virtqtest.Buffer{Addr: highAddr, Len: 8}
		}
		direct, slots := 0, 1
		if v.direct || len(bufs) == 1 {
			direct, slots = len(bufs), len(bufs)
		}
		r, w := bufs, []virtqtest.Buffer(nil)
		if v.writable {
			r, w = w, r
		}
		head, err := v.drv.AddSplit(direct, r, w)
		if err != nil {
			break
		}
		v.made = append(v.made, head)
		v.slots[head] = slots
	}
	v.drv.Publish()
}

// reap takes back what the device returned: the next of made, in their order.
func (v *victim) reap(seed uint64) {
	for {
		u, ok, err := v.drv.Reap()
		if err != nil {
			v.t.Fatalf("seed %d: %v", seed, err)
		}
		if !ok {
			return
		}
		if len(v.made) == 0 || u.Head != v.made[0] || u.Len != v.written[u.Head] {
			v.t.Fatalf("seed %d: %+v came back, want %v, %d bytes", seed, u, v.made, v.written[u.Head])
		}
		v.at = (v.at + v.slots[u.Head]) % int(v.drv.Size())
		v.made = v.made[1:]
		delete(v.written, u.Head)
	}
}

// tear undoes the last ones of the writes of a Publish, or none.
func (v *victim) tear(desc, before []byte, returned []uint16) (amid int) {
	after := slices.Clone(desc)
	copy(desc, before)
	writes := v.writes(after, before, returned)
	n := v.rng.IntN(len(writes) + 1)
	for _, w := range writes[:n] {
		copy(desc[w.at:w.at+w.n], after[w.at:])
	}
	if n > 0 && n < len(writes) {
		amid = 1
	}
	return amid
}

type write struct{ at, n int }

// writes are those of a Publish, in their order: for each chain its length if
// there is one, the slots behind the first from the last one on, and the first
// with length, ID and flags; that of all, for which the driver waits, at the end.
func (v *victim) writes(after, before []byte, returned []uint16) (ws []write) {
	size := int(v.drv.Size())
	mark := func(slot int) uint32 { return binary.LittleEndian.Uint32(after[slot%size*16+12:]) }
	for i, at := 0, v.at; i < len(returned); {
		head, n := at%size, v.slots[returned[i]]
		// One used descriptor may stand for several chains: marked alike.
		batch := 1
		for v.drv.Config().InOrder && !v.writable && i+batch < len(returned) &&
			mark(at+n)&0xffff == mark(head)&0xffff {
			n += v.slots[returned[i+batch]]
			batch++
		}
		if v.written[returned[i]] > 0 && (n > 1 || i == 0 && batch < len(returned)) {
			ws = append(ws, write{head*16 + 8, 4})
		}
		for k := n - 1; k > 0; k-- {
			ws = append(ws, write{(at+k)%size*16 + 12, 4})
		}
		if i > 0 {
			ws = append(ws, write{head*16 + 8, 8})
		}
		i += batch
		at += n
	}
	if len(returned) > 0 {
		ws = append(ws, write{v.at*16 + 8, 8})
	}
	if torn := slices.Clone(before); len(returned) > 0 {
		for _, w := range ws {
			copy(torn[w.at:w.at+w.n], after[w.at:])
		}
		if !slices.Equal(torn, after) {
			v.t.Fatalf("the writes are others than thought:\n%x\n%x", torn, after)
		}
	}
	return ws
}
