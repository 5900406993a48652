package virtqueue_test

import (
	"fmt"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

const benchBatch = 64

// BenchmarkChain is the device's work for one chain: Take and Return, and its
// share of a Publish for 64. The driver's work is one store per 64 chains: the
// slots of the available ring are filled once and the heads come round again.
func BenchmarkChain(b *testing.B) {
	for _, bufs := range []int{1, 2, 19} {
		for _, indirect := range []bool{false, true} {
			if (bufs == 1) == indirect {
				continue
			}
			for _, writable := range []bool{false, true} {
				name := fmt.Sprintf("buffers=%d/indirect=%v/write=%v", bufs, indirect, writable)
				b.Run(name, func(b *testing.B) { benchChain(b, bufs, indirect, writable) })
			}
		}
	}
}

func benchChain(b *testing.B, bufs int, indirect, writable bool) {
	drv, q := pair(b, virtqtest.Config{Size: 256, EventIdx: true, Indirect: indirect}, writable)
	bs := make([]virtqtest.Buffer, bufs)
	for i := range bs {
		bs[i] = virtqtest.Buffer{Addr: highAddr + uint64(i)*1024, Len: 1024}
	}
	ring := drv.Ring()
	for i := range uint16(benchBatch) {
		head := add(b, drv, writable, bs...)
		for k := i; k < 256; k += benchBatch {
			ring.SetAvailSlot(k, head)
		}
	}
	ring.SetAvail(0, 0)
	ring.SetUsedEvent(0x8000)
	vecs := make([]iov.Vec, 0, 32)
	idx := uint16(0)
	b.ReportAllocs()
	for n := 0; n < b.N; n += benchBatch {
		idx += benchBatch
		ring.SetAvail(0, idx)
		benchTurn(b, q, vecs, bufs)
	}
}

// benchTurn takes and returns a batch of chains of so many buffers.
func benchTurn(b *testing.B, q *virtqueue.Queue, vecs []iov.Vec, bufs int) {
	var tokens [benchBatch]uint32
	for i := range tokens {
		var err error
		if vecs, tokens[i], err = q.Take(vecs[:0]); err != nil || len(vecs) != bufs {
			b.Fatal(len(vecs), err)
		}
	}
	for _, token := range tokens {
		q.Return(token, 0)
	}
	q.Publish()
}

// BenchmarkPackedChain is BenchmarkChain for a packed ring. The driver's work is
// in it: to mark each chain available, without which a packed ring has nothing.
func BenchmarkPackedChain(b *testing.B) {
	for _, bufs := range []int{1, 2, 19} {
		for _, inOrder := range []bool{false, true} {
			for _, writable := range []bool{false, true} {
				name := fmt.Sprintf("buffers=%d/inOrder=%v/write=%v", bufs, inOrder, writable)
				b.Run(name, func(b *testing.B) { benchPackedChain(b, bufs, inOrder, writable) })
			}
		}
	}
}

func benchPackedChain(b *testing.B, bufs int, inOrder, writable bool) {
	cfg := virtqtest.Config{Size: 256, EventIdx: true, Indirect: true, Packed: true, InOrder: inOrder}
	drv, q := pair(b, cfg, writable)
	bs := make([]virtqtest.Buffer, bufs)
	for i := range bs {
		bs[i] = virtqtest.Buffer{Addr: highAddr + uint64(i)*1024, Len: 1024}
	}
	ring := drv.Packed()
	var descs [256]virtqtest.PackedDesc
	for i := range descs {
		add(b, drv, writable, bs...)
		descs[i] = ring.Desc(uint16(i))
	}
	ring.SetDriverEvent(0, virtqtest.EventDisable)
	vecs := make([]iov.Vec, 0, 32)
	slot := uint16(0)
	b.ReportAllocs()
	for n := 0; n < b.N; n += benchBatch {
		benchTurn(b, q, vecs, bufs)
		for range benchBatch { // available again, in the next lap
			d := &descs[slot]
			d.Flags ^= virtqtest.FlagAvail | virtqtest.FlagUsed
			ring.SetDesc(slot, *d)
			slot = (slot + 1) % 256
		}
	}
}

// BenchmarkNotify is what a worker does once per batch.
func BenchmarkNotify(b *testing.B) {
	for _, packed := range []bool{false, true} {
		for _, eventIdx := range []bool{false, true} {
			b.Run(fmt.Sprintf("packed=%v/eventIdx=%v", packed, eventIdx), func(b *testing.B) {
				_, q := pair(b, virtqtest.Config{Size: 256, Packed: packed, EventIdx: eventIdx}, false)
				b.ReportAllocs()
				for b.Loop() {
					q.SuppressKicks()
					if q.ArmKicks() {
						b.Fatal("chains out of nothing")
					}
				}
			})
		}
	}
}

// BenchmarkBothSides is a load generator and its device in turn: what one chain
// costs them together.
func BenchmarkBothSides(b *testing.B) {
	for _, c := range []struct {
		bufs   int
		packed bool
	}{{1, false}, {1, true}, {19, false}, {19, true}} {
		bufs := c.bufs
		b.Run(fmt.Sprintf("buffers=%d/packed=%v", bufs, c.packed), func(b *testing.B) {
			drv, q := pair(b, virtqtest.Config{Size: 256, EventIdx: true, Indirect: true, Packed: c.packed}, true)
			bs := make([]virtqtest.Buffer, bufs)
			for i := range bs {
				bs[i] = virtqtest.Buffer{Addr: highAddr + uint64(i)*1024, Len: 1024}
			}
			drv.DisableCalls()
			vecs := make([]iov.Vec, 0, 32)
			b.ReportAllocs()
			for n := 0; n < b.N; n += benchBatch {
				for range benchBatch {
					if _, err := drv.Add(nil, bs); err != nil {
						b.Fatal(err)
					}
				}
				drv.Kick()
				for range benchBatch {
					v, token, err := q.Take(vecs[:0])
					if err != nil {
						b.Fatal(err)
					}
					vecs = v
					q.Return(token, 1024)
				}
				q.Publish()
				for range benchBatch {
					if _, ok, err := drv.Reap(); !ok || err != nil {
						b.Fatal(ok, err)
					}
				}
			}
		})
	}
}
