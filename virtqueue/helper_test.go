package virtqueue_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

const (
	page     = 4096
	lowAddr  = 16 * page
	lowSize  = 256 * page
	highAddr = lowAddr + lowSize // follows without a gap
	highSize = 16 * page
)

// twoRegions is memory of two regions that follow each other without a gap.
func twoRegions(t testing.TB) *virtqtest.Memory {
	t.Helper()
	mem, err := virtqtest.NewMemory(
		virtqtest.HeapRegion(lowAddr, lowSize), virtqtest.HeapRegion(highAddr, highSize))
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// pair makes both ends of a ring.
func pair(t testing.TB, cfg virtqtest.Config, writable bool) (*virtqtest.Driver, *virtqueue.Queue) {
	t.Helper()
	drv, err := virtqtest.NewDriver(twoRegions(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	q, err := virtqueue.New(drv.QueueConfig(writable))
	if err != nil {
		t.Fatal(err)
	}
	return drv, q
}

// add makes a chain of the given buffers available, in the direction asked for.
func add(t testing.TB, d *virtqtest.Driver, writable bool, bufs ...virtqtest.Buffer) uint16 {
	t.Helper()
	var head uint16
	var err error
	if writable {
		head, err = d.Add(nil, bufs)
	} else {
		head, err = d.Add(bufs, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Publish()
	return head
}

// addN makes n chains of one small buffer each available.
func addN(t testing.TB, d *virtqtest.Driver, writable bool, n int) []uint16 {
	t.Helper()
	heads := make([]uint16, n)
	for i := range heads {
		heads[i] = add(t, d, writable, virtqtest.Buffer{Addr: highAddr + uint64(i), Len: 16})
	}
	return heads
}

// take takes a chain that must be there.
func take(t testing.TB, q *virtqueue.Queue) ([]iov.Vec, uint32) {
	t.Helper()
	vecs, token, err := q.Take(nil)
	if err != nil {
		t.Fatal(err)
	}
	return vecs, token
}

// wantEmpty checks that there is no chain.
func wantEmpty(t testing.TB, q *virtqueue.Queue) {
	t.Helper()
	if _, _, err := q.Take(nil); !errors.Is(err, virtqueue.ErrEmpty) {
		t.Errorf("Take: %v, want %v", err, virtqueue.ErrEmpty)
	}
}

// reap takes a returned chain that must be there.
func reap(t testing.TB, d *virtqtest.Driver) virtqtest.Used {
	t.Helper()
	u, ok, err := d.Reap()
	if !ok || err != nil {
		t.Fatalf("Reap: nothing there, error %v", err)
	}
	return u
}

// guestAddr translates a vector back, or fails if it is not in guest memory.
func guestAddr(t testing.TB, m *guestmem.Map, v iov.Vec) uint64 {
	t.Helper()
	base := reflect.ValueOf(v.Base).Pointer()
	for _, r := range m.Regions() {
		first := reflect.ValueOf(&r.Mem[0]).Pointer()
		if off := uint64(base - first); off < r.Size && v.Len <= r.Size-off {
			return r.GuestAddr + off
		}
	}
	t.Fatalf("vector of %d bytes is outside of guest memory", v.Len)
	return 0
}

// ranges are the guest addresses of vectors.
func ranges(t testing.TB, m *guestmem.Map, vecs []iov.Vec) []virtqtest.Buffer {
	t.Helper()
	var out []virtqtest.Buffer
	for _, v := range vecs {
		out = append(out, virtqtest.Buffer{Addr: guestAddr(t, m, v), Len: uint32(v.Len)})
	}
	return out
}

func directions(t *testing.T, f func(t *testing.T, writable bool)) {
	t.Run("read", func(t *testing.T) { f(t, false) })
	t.Run("write", func(t *testing.T) { f(t, true) })
}

// formats runs f for rings of either format, with and without IN_ORDER. It sets
// these in cfg.
func formats(t *testing.T, cfg virtqtest.Config, f func(t *testing.T, cfg virtqtest.Config)) {
	for _, packed := range []bool{false, true} {
		for _, inOrder := range []bool{false, true} {
			cfg.Packed, cfg.InOrder = packed, inOrder
			t.Run(formatName(cfg), func(t *testing.T) { f(t, cfg) })
		}
	}
}

func formatName(cfg virtqtest.Config) string {
	name := "split"
	if cfg.Packed {
		name = "packed"
	}
	if cfg.InOrder {
		name += ", in order"
	}
	return name
}
