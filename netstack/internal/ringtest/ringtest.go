// Package ringtest plays the guest's receive ring for tests of what writes
// frames: buffers of one size, given one by one, and the frames that come back.
package ringtest

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// Frame is what the guest received.
type Frame struct {
	Vnet header.Vnet
	Data []byte // from the Ethernet header on
}

type used struct {
	token, bytes uint32
}

// Guest is a receive ring and the driver behind it. It implements
// framequeue.Ring and framequeue.Caller.
type Guest struct {
	t       testing.TB
	buffers [][]byte
	next    int // first buffer not taken
	staged  []used
	Frames  []Frame
	Calls   int
	Armed   bool
}

// New attaches a Guest to q and gives it n buffers of size bytes.
func New(t testing.TB, q *framequeue.Queue, n, size int, mergeable bool) *Guest {
	g := &Guest{t: t}
	g.Add(n, size)
	q.Attach(g, g, framequeue.Format{Mergeable: mergeable})
	q.SetEnabled(true)
	return g
}

// Add gives n more buffers of size bytes.
func (g *Guest) Add(n, size int) {
	for range n {
		g.buffers = append(g.buffers, make([]byte, size))
	}
}

// TakeAway empties the ring of all buffers that were not taken.
func (g *Guest) TakeAway() { g.buffers = g.buffers[:g.next] }

// Take implements framequeue.Ring. A buffer has two vectors.
func (g *Guest) Take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	if g.next == len(g.buffers) {
		return dst, 0, virtqueue.ErrEmpty
	}
	b := g.buffers[g.next]
	g.next++
	return append(dst, iov.Of(b[:len(b)/3]), iov.Of(b[len(b)/3:])), uint32(g.next - 1), nil
}

// Untake implements framequeue.Ring.
func (g *Guest) Untake(n int) {
	if n > g.next {
		g.t.Fatalf("Untake(%d) of %d buffers", n, g.next)
	}
	g.next -= n
}

// Return implements framequeue.Ring.
func (g *Guest) Return(token, bytes uint32) {
	if int(token) >= g.next || int(bytes) > len(g.buffers[token]) {
		g.t.Fatalf("Return(%d, %d)", token, bytes)
	}
	g.staged = append(g.staged, used{token, bytes})
}

// Publish implements framequeue.Ring: the guest takes the frames apart.
func (g *Guest) Publish() bool {
	for len(g.staged) > 0 {
		if g.staged[0].bytes == 0 { // given back unused
			g.staged = g.staged[1:]
			continue
		}
		v := header.ParseVnet(g.buffers[g.staged[0].token])
		n := int(v.NumBuffers)
		if n == 0 || n > len(g.staged) {
			g.t.Fatalf("frame of %d buffers, %d returned", n, len(g.staged))
		}
		var data []byte
		for i, u := range g.staged[:n] {
			if i < n-1 && int(u.bytes) != len(g.buffers[u.token]) {
				g.t.Fatalf("buffer %d of %d is not full", i, n)
			}
			data = append(data, g.buffers[u.token][:u.bytes]...)
		}
		g.staged = g.staged[n:]
		g.Frames = append(g.Frames, Frame{v, data[header.VnetLen:]})
	}
	return true
}

// SuppressKicks implements framequeue.Ring.
func (g *Guest) SuppressKicks() { g.Armed = false }

// ArmKicks implements framequeue.Ring.
func (g *Guest) ArmKicks() bool {
	g.Armed = true
	return g.Pending() > 0
}

// Pending implements framequeue.Ring.
func (g *Guest) Pending() int { return len(g.buffers) - g.next }

// Known implements framequeue.Ring.
func (g *Guest) Known() int { return g.Pending() }

// Call implements framequeue.Caller.
func (g *Guest) Call() { g.Calls++ }

// Parse returns frame i taken apart, after checking what a driver checks: its
// headers and, where it is not left to the guest, its checksum.
func (g *Guest) Parse(i int) header.Packet {
	g.t.Helper()
	if i >= len(g.Frames) {
		g.t.Fatalf("no frame %d: guest received %d", i, len(g.Frames))
	}
	f := g.Frames[i]
	var p header.Packet
	if why := header.Parse(&p, f.Data[:min(len(f.Data), header.MaxHeaders)], len(f.Data)); why != header.OK {
		g.t.Fatalf("frame %d: %v", i, why)
	}
	if !p.IsIP() || p.IsFragment() {
		return p
	}
	if f.Vnet.Flags&header.VnetNeedsCsum != 0 {
		if !header.Complete(f.Data, int(f.Vnet.CsumStart), int(f.Vnet.CsumOffset)) || int(f.Vnet.CsumStart) != p.L4 {
			g.t.Fatalf("frame %d: checksum range %+v", i, f.Vnet)
		}
		g.Frames[i].Vnet.Flags = header.VnetDataValid
	}
	if !header.ChecksumOK(f.Data[p.L4:p.End], &p.Src, &p.Dst, p.Proto) {
		g.t.Fatalf("frame %d: wrong checksum", i)
	}
	return p
}
