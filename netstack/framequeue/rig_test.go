package framequeue

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// rig is a queue over a real ring, and the driver at its other end.
type rig struct {
	t     testing.TB
	q     *Queue
	dev   *virtqueue.Queue
	drv   *virtqtest.Driver
	pool  uint64 // guest memory for buffers
	next  uint64
	addrs map[uint16][]virtqtest.Buffer // by head of chain
	calls int
	got   []gotFrame
	part  []byte // of a frame whose other buffers are still to come
	parts int
	order []uint16 // heads, in the order in which the driver gave them
}

type gotFrame struct {
	vnet  header.Vnet
	frame []byte
}

const poolBytes = 8 << 20

// Call implements Caller.
func (r *rig) Call() { r.calls++ }

func newRig(t testing.TB, size uint16, eventIdx, mergeable bool) *rig {
	t.Helper()
	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0x10000, poolBytes+8<<20))
	if err != nil {
		t.Fatal(err)
	}
	drv, err := virtqtest.NewDriver(mem, virtqtest.Config{Size: size, EventIdx: eventIdx, Indirect: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, q: New(), drv: drv, addrs: map[uint16][]virtqtest.Buffer{}}
	if r.pool, err = mem.Alloc(poolBytes, 64); err != nil {
		t.Fatal(err)
	}
	if r.dev, err = virtqueue.New(drv.QueueConfig(true)); err != nil {
		t.Fatal(err)
	}
	r.q.Attach(r.dev, r, Format{Mergeable: mergeable})
	r.q.SetEnabled(true)
	r.q.Refill()
	return r
}

// give adds one buffer made of descriptors of the given sizes. It reports
// false when the ring is full, and whether the device wants a kick.
func (r *rig) give(sizes ...int) (kick, ok bool) {
	r.t.Helper()
	total := 0
	for _, n := range sizes {
		total += n
	}
	if r.next+uint64(total) > poolBytes {
		r.next = 0
	}
	bufs := make([]virtqtest.Buffer, len(sizes))
	at := r.pool + r.next
	r.next += uint64(total)
	for i, n := range sizes {
		bufs[i] = virtqtest.Buffer{Addr: at, Len: uint32(n)}
		at += uint64(n)
	}
	head, err := r.drv.Add(nil, bufs)
	if err != nil {
		return false, false
	}
	r.addrs[head] = bufs
	r.order = append(r.order, head)
	return r.drv.Kick(), true
}

// reap takes what the queue has flushed and puts frames together, as a driver
// does: by the number of buffers that the first one says.
func (r *rig) reap() {
	r.t.Helper()
	for {
		u, ok, err := r.drv.Reap()
		if err != nil {
			r.t.Fatal(err)
		}
		if !ok {
			return
		}
		if r.order[0] != u.Head {
			r.t.Fatalf("buffers come back out of order: %d, want %d", u.Head, r.order[0])
		}
		r.order = r.order[1:]
		r.buffer(r.bytes(u))
	}
}

func (r *rig) bytes(u virtqtest.Used) []byte {
	var all []byte
	left := u.Len
	for _, b := range r.addrs[u.Head] {
		n := min(left, b.Len)
		all = append(all, r.drv.Memory().Bytes(b.Addr, uint64(b.Len))[:n]...)
		left -= n
	}
	delete(r.addrs, u.Head)
	return all
}

func (r *rig) buffer(b []byte) {
	r.t.Helper()
	if r.parts == 0 {
		if len(b) == 0 {
			return // given back empty
		}
		if r.part = nil; len(b) < header.VnetLen && !r.q.Mergeable() {
			r.t.Fatalf("frame of %d bytes", len(b))
		}
		r.parts = -1
	}
	if len(b) == 0 {
		r.t.Fatal("empty buffer inside of a frame")
	}
	r.part = append(r.part, b...)
	if r.parts == -1 {
		r.parts = 1
		if len(r.part) >= header.VnetLen {
			r.parts = int(header.ParseVnet(r.part).NumBuffers)
		} else {
			r.t.Fatal("first buffer of a frame holds no vnet header")
		}
		if r.parts == 0 {
			r.t.Fatal("frame of no buffers")
		}
	}
	if r.parts--; r.parts == 0 {
		r.got = append(r.got, gotFrame{header.ParseVnet(r.part), r.part[header.VnetLen:]})
	}
}

// take returns what was received since the last take.
func (r *rig) take() []gotFrame {
	r.t.Helper()
	r.reap()
	g := r.got
	r.got = nil
	return g
}

// numbered makes a frame of n bytes that begins with id and goes on with bytes
// that follow from it.
func numbered(id uint32, n int) []byte {
	b := make([]byte, n)
	binary.LittleEndian.PutUint32(b, id)
	rng := rand.New(rand.NewPCG(uint64(id), 1))
	for i := 4; i < n; i++ {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// payloadFrame begins, fills and ends one payload frame with id, of at most n
// bytes behind hdrBytes of headers. It returns the frame, shorter where the
// ring ended, or nil.
func (r *rig) payloadFrame(id uint32, hdrBytes, n int) []byte {
	room := r.q.Begin(hdrBytes, n)
	if room == 0 {
		return nil
	}
	f := numbered(id, hdrBytes+room)
	iov.CopyIn(r.q.Payload(), 0, f[hdrBytes:])
	r.q.End(room, header.Vnet{}, f[:hdrBytes])
	return f
}
