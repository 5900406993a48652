package virtqueue

import (
	"github.com/vhost-net-go/vhost-net-go/virtqueue/dirtylog"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// Logging says where a queue marks the pages of guest memory that it, or its
// user, has written. The zero value stands for not at all.
type Logging struct {
	// Log covers the memory of all buffers (VHOST_F_LOG_ALL).
	Log *dirtylog.Log
	// Ring: what is written to the ring itself is marked too
	// (VHOST_VRING_F_LOG).
	Ring bool
	// DescAddr and UsedAddr are where Config.Desc, of a packed ring, and
	// Config.Used are marked: their guest addresses.
	DescAddr, UsedAddr uint64
}

// dirty marks the pages that are written through a queue. What was written to
// buffers is marked by Publish, just before the driver sees them: a user writes
// the header of a frame, which says how many buffers it has, when these are
// returned already. What was written to the ring is marked directly after.
//
// Chains that are given back are marked too, as a whole. No driver can rely on
// what is in a buffer that the device has not returned, so that the other side of
// a migration may well have another content there; but it is cheap, and all that
// was written is in the log then.
type dirty struct {
	Logging
	mem     *guestmem.Map
	buffers bool // the device writes to the queue's buffers
	// held has the buffers of each chain that the device has, by token.
	held [][]span
	// written are the parts of returned chains that were written.
	written []span
}

// span is a piece of guest memory.
type span struct{ addr, bytes uint64 }

// Lists of spans that are longer are not kept for later: a guest must not make
// each of its chains leave the longest possible one.
const (
	keepHeld    = 32
	keepWritten = 1 << 14
)

// newDirty returns nil if nothing is to be marked.
func newDirty(c *Config) *dirty {
	if c.Logging.Log == nil {
		return nil
	}
	d := &dirty{Logging: c.Logging, mem: c.Mem, buffers: c.Writable}
	if d.buffers {
		d.held = make([][]span, c.Size)
	}
	return d
}

// take notes the buffers of a chain.
func (d *dirty) take(token uint16, vecs []iov.Vec) {
	if !d.buffers {
		return
	}
	spans := d.held[token][:0]
	for _, v := range vecs {
		// All vectors come from the map.
		addr, _ := d.mem.HostToGuest(v.Base)
		spans = append(spans, span{addr, v.Len})
	}
	d.held[token] = spans
}

// untake marks a chain that goes back to the ring: it may have been written.
func (d *dirty) untake(token uint16) {
	if !d.buffers {
		return
	}
	for _, s := range d.held[token] {
		d.Log.Mark(s.addr, s.bytes)
	}
	d.release(token)
}

// giveBack notes which part of a chain was written.
func (d *dirty) giveBack(token uint16, written uint64) {
	if !d.buffers {
		return
	}
	for _, s := range d.held[token] {
		if written == 0 {
			break
		}
		s.bytes = min(s.bytes, written)
		written -= s.bytes
		d.written = append(d.written, s)
	}
	d.release(token)
}

func (d *dirty) release(token uint16) {
	if cap(d.held[token]) > keepHeld {
		d.held[token] = nil
	}
}

// publish marks what was written to returned buffers.
func (d *dirty) publish() {
	for _, s := range d.written {
		d.Log.Mark(s.addr, s.bytes)
	}
	d.written = d.written[:0]
	if cap(d.written) > keepWritten {
		d.written = nil
	}
}

// usedRing marks n bytes at off in Config.Used.
func (d *dirty) usedRing(off, n int) {
	if d.Ring {
		d.Log.Mark(d.UsedAddr+uint64(off), uint64(n))
	}
}

// elements marks n used elements of a split ring from slot first on, which are
// written but not yet visible, and the returned buffers that they are about.
func (d *dirty) elements(first, n uint16, size uint32) {
	d.publish()
	// The ring may begin anew in between.
	head := min(uint32(n), size-uint32(first))
	d.usedRing(usedHeader+usedSlot*int(first), usedSlot*int(head))
	d.usedRing(usedHeader, usedSlot*int(uint32(n)-head))
}

// descriptors marks n descriptors of a packed ring from slot first on.
func (d *dirty) descriptors(first, n, size uint32) {
	if !d.Ring {
		return
	}
	head := min(n, size-first)
	d.Log.Mark(d.DescAddr+descBytes*uint64(first), descBytes*uint64(head))
	d.Log.Mark(d.DescAddr, descBytes*uint64(n-head))
}
