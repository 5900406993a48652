package virtqueue

import (
	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// maxChainBytes bounds the sum of a chain's buffers (virtio 1.2, 2.7.5.2).
const maxChainBytes = 1 << 32

// checks is what every kind of ring needs to judge a chain.
type checks struct {
	mem      *guestmem.Map
	window   window // the region of the last buffer: the next one is there too, most likely
	size     uint32 // the limit for descriptors in a chain
	wanted   uint16 // the WRITE bit as each buffer of this queue has it
	indirect bool   // indirect descriptors were negotiated
	scratch  []byte // copy of an indirect table that lies across regions
}

func newChecks(c *Config) checks {
	k := checks{mem: c.Mem, size: uint32(c.Size), indirect: c.Indirect}
	if c.Writable {
		k.wanted = descWrite
	}
	return k
}

// chain is what a walk has gathered so far.
type chain struct {
	vecs     []iov.Vec
	bytes    uint64
	count    uint32 // descriptors, indirect ones not counted
	nested   bool   // the walk is inside an indirect table
	writable bool   // a writable buffer was seen; up to date in wrong chains only
	wrong    bool   // a buffer has the wrong direction for this queue
}

// fault is a broken rule. Without a cause it is none.
type fault struct {
	cause Cause
	desc  uint16
	value uint64
}

// mapBuffer adds the n bytes at addr to c, wherever they are.
func (k *checks) mapBuffer(c *chain, addr, n uint64) Cause {
	switch {
	case n == 0:
		return CauseZeroLength
	case c.bytes+n > maxChainBytes:
		// Checked on the way because one huge buffer can be many vectors.
		return CauseChainTooBig
	}
	vecs, err := k.mem.AppendVecs(c.vecs, addr, n)
	if err != nil {
		return CauseUnmapped
	}
	k.window = newWindow(k.mem.Find(addr))
	c.vecs = vecs
	c.bytes += n
	c.count++
	return 0
}

// direction looks at the direction of the next buffer. It reports whether the
// order is legal: readable buffers first (virtio 1.2, 2.7.4.2).
func (k *checks) direction(c *chain, flags uint16) bool {
	write := flags & descWrite
	if !c.wrong {
		// Up to here all buffers were as wanted.
		c.writable = k.wanted == descWrite && c.count > 0
	}
	c.wrong = c.wrong || write != k.wanted
	if write == 0 && c.writable {
		return false
	}
	c.writable = c.writable || write != 0
	return true
}

// buffer adds the n bytes at addr to c, which descriptor i with the given flags
// names.
func (k *checks) buffer(c *chain, i uint16, addr, n uint64, flags uint16) fault {
	if !k.direction(c, flags) {
		return fault{CauseOrder, i, addr}
	}
	return fault{k.mapBuffer(c, addr, n), i, addr}
}

// total checks the sum of all buffers of c, whose last descriptor is i.
func (c *chain) total(i uint16) fault {
	if c.bytes > maxChainBytes {
		return fault{CauseChainTooBig, i, c.bytes}
	}
	return fault{}
}

// table returns the indirect table of n bytes at addr. It is read once: where
// it lies in one region the walk reads each descriptor once, otherwise this
// copies it.
func (k *checks) table(c *chain, addr, n uint64, flags uint16) ([]byte, fault) {
	switch {
	case c.nested:
		return nil, fault{cause: CauseIndirectNested, value: addr}
	case !k.indirect:
		return nil, fault{cause: CauseIndirectFeature, value: addr}
	case flags&descNext != 0:
		return nil, fault{cause: CauseIndirectNext, value: addr}
	case n == 0 || n%descBytes != 0 || n > uint64(k.size)*descBytes:
		return nil, fault{cause: CauseIndirectLength, value: n}
	}
	if off := addr - k.window.start; off < k.window.size && n <= k.window.size-off {
		return k.window.vec(off, n).Bytes(), fault{}
	}
	if t, err := k.mem.Slice(addr, n); err == nil {
		return t, fault{}
	}
	if k.scratch == nil {
		k.scratch = make([]byte, k.size*descBytes)
	}
	t := k.scratch[:n]
	if k.mem.CopyOut(t, addr) != nil {
		return nil, fault{cause: CauseIndirectUnmapped, value: addr}
	}
	return t, fault{}
}
