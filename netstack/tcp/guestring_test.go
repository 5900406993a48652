package tcp

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// guestRing is the ring on which the guest receives, with its driver.
type guestRing struct {
	t       testing.TB
	dev     *virtqueue.Queue
	drv     *virtqtest.Driver
	refill  bool // buffers that were used are given again
	buffers map[uint16]virtqtest.Buffer
	spare   []virtqtest.Buffer
	part    []byte
	parts   int
}

const ringSize = 1024

func newGuestRing(t testing.TB, q *framequeue.Queue, mergeable bool, bytes int) *guestRing {
	t.Helper()
	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0x10000, uint64(bytes)+1<<20))
	if err != nil {
		t.Fatal(err)
	}
	g := &guestRing{t: t, refill: true, buffers: map[uint16]virtqtest.Buffer{}}
	if g.drv, err = virtqtest.NewDriver(mem, virtqtest.Config{Size: ringSize, EventIdx: true}); err != nil {
		t.Fatal(err)
	}
	if g.dev, err = virtqueue.New(g.drv.QueueConfig(true)); err != nil {
		t.Fatal(err)
	}
	q.Attach(g.dev, g, framequeue.Format{Mergeable: mergeable})
	q.SetEnabled(true)
	return g
}

// Call implements framequeue.Caller.
func (g *guestRing) Call() {}

// give posts n new buffers.
func (g *guestRing) give(n, size int) {
	g.t.Helper()
	for range n {
		addr, err := g.drv.Memory().Alloc(uint64(size), 8)
		if err != nil {
			g.t.Fatal(err)
		}
		g.post(virtqtest.Buffer{Addr: addr, Len: uint32(size)})
	}
	g.drv.Kick()
}

func (g *guestRing) post(b virtqtest.Buffer) {
	g.t.Helper()
	head, err := g.drv.Add(nil, []virtqtest.Buffer{b})
	if err != nil {
		g.t.Fatal(err)
	}
	g.buffers[head] = b
}

// empty takes all buffers away, and gives none again.
func (g *guestRing) empty() {
	g.t.Helper()
	g.refill = false
	for {
		_, token, err := g.dev.Take(nil)
		if err != nil {
			break
		}
		g.dev.Return(token, 0)
	}
	g.dev.Publish()
}

// full posts what is spare, and goes on to.
func (g *guestRing) full() {
	g.refill = true
	g.some(len(g.spare))
}

// some posts n spare buffers.
func (g *guestRing) some(n int) {
	for _, b := range g.spare[:n] {
		g.post(b)
	}
	g.spare = g.spare[n:]
	g.drv.Kick()
}

// receive returns the frames that have come.
func (g *guestRing) receive(f func(v header.Vnet, frame []byte)) {
	g.t.Helper()
	for {
		u, ok, err := g.drv.Reap()
		if err != nil {
			g.t.Fatal(err)
		}
		if !ok {
			return
		}
		b := g.buffers[u.Head]
		delete(g.buffers, u.Head)
		if u.Len > 0 {
			g.part = append(g.part, g.drv.Memory().Bytes(b.Addr, uint64(b.Len))[:u.Len]...)
			if g.parts == 0 {
				g.parts = int(header.ParseVnet(g.part).NumBuffers)
			}
			if g.parts--; g.parts == 0 {
				f(header.ParseVnet(g.part), g.part[header.VnetLen:])
				g.part = nil
			}
		}
		if g.refill {
			g.post(b)
			g.drv.Kick()
		} else {
			g.spare = append(g.spare, b)
		}
	}
}
