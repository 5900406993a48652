package virtqtest

import (
	"errors"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/internal/order"
)

// ErrFull says that the ring has too few free descriptors for a chain.
var ErrFull = errors.New("virtqtest: ring is full")

// defaultIndirectEntries holds what Linux' network driver puts into one chain:
// a header, the linear part and 17 fragments.
const defaultIndirectEntries = 19

// Config describes a queue as the driver sets it up.
type Config struct {
	Size     uint16 // descriptors: 1…32768, a power of two unless Packed
	EventIdx bool   // VIRTIO_F_EVENT_IDX was negotiated
	Indirect bool   // VIRTIO_F_INDIRECT_DESC was negotiated
	Packed   bool   // VIRTIO_F_RING_PACKED was negotiated
	InOrder  bool   // VIRTIO_F_IN_ORDER was negotiated
	// IndirectEntries is the length of the indirect table that each descriptor
	// has; 0 means 19 or Size, whichever is less.
	IndirectEntries uint16
	// FirstIndex is where both ring indices start, as in a ring that has been
	// in use. In a packed ring it is how many descriptors have gone through it.
	FirstIndex uint16
	// OddAvail puts the available ring of a split ring at an address that is 2
	// modulo 4.
	OddAvail bool
}

// Buffer is a piece of guest memory.
type Buffer struct {
	Addr uint64 // guest address
	Len  uint32 // bytes
}

// headState is what the driver knows of the chain that starts at a descriptor.
type headState struct {
	count    uint16 // descriptors of the ring that it takes; 0: not in use
	writable uint64 // bytes that the device may write
}

// Driver is the driver of one ring. One goroutine at a time may use it;
// the device runs beside it. After NewDriver nothing allocates.
type Driver struct {
	ring   *Ring         // nil if packed
	packed *packedDriver // nil if split
	cfg    Config
	mem    *Memory
	fence  order.Fence

	// next has the list of free descriptors and those of chains: by descriptor
	// the one behind it; always the next one with IN_ORDER (virtio 1.2, 2.7.5.2).
	// In a packed ring, the list of free buffer IDs.
	next     []uint16
	heads    []headState // by head, or by buffer ID
	freeHead uint16
	free     int

	tables    []byte // an indirect table per descriptor
	tableAddr uint64

	availIdx   uint16 // with what was added, published or not
	published  uint16
	kickedIdx  uint16 // available index at the last decision on a kick
	lastUsed   uint16 // used elements reaped
	usedIdx    uint16 // used index when last looked at
	noCalls    bool   // the device was asked not to call
	availFlags uint16 // as in memory; always 0 with EVENT_IDX (virtio 1.2, 2.7.7.1)

	// With IN_ORDER: the chains that the device holds, in order, in a circle,
	// and the last chain of a batch of which not all were reaped.
	order              []uint16
	orderFirst, orderN int
	batch              bool
	batchLast          Used
}

// NewDriver lays a ring out in mem.
func NewDriver(mem *Memory, cfg Config) (*Driver, error) {
	if err := virtqueue.CheckSize(cfg.Packed, uint32(cfg.Size)); err != nil {
		return nil, fmt.Errorf("virtqtest: %w", err)
	}
	d := &Driver{
		cfg: cfg, mem: mem,
		next: make([]uint16, cfg.Size), heads: make([]headState, cfg.Size), free: int(cfg.Size),
		availIdx: cfg.FirstIndex, published: cfg.FirstIndex, kickedIdx: cfg.FirstIndex,
		lastUsed: cfg.FirstIndex, usedIdx: cfg.FirstIndex,
	}
	var err error
	if cfg.Packed {
		d.packed, err = newPackedDriver(mem, cfg.Size, cfg.FirstIndex)
	} else {
		d.ring, err = newRing(mem, cfg.Size, cfg.OddAvail)
	}
	if err != nil {
		return nil, err
	}
	for i := range d.next {
		d.next[i] = uint16((i + 1) % int(cfg.Size))
	}
	if cfg.InOrder {
		d.order = make([]uint16, cfg.Size)
	}
	if cfg.Indirect {
		if d.cfg.IndirectEntries == 0 {
			d.cfg.IndirectEntries = min(defaultIndirectEntries, cfg.Size)
		}
		n := uint64(cfg.Size) * uint64(d.cfg.IndirectEntries) * descBytes
		if d.tableAddr, err = mem.Alloc(n, descBytes); err != nil {
			return nil, fmt.Errorf("indirect tables: %w", err)
		}
		d.tables = mem.Bytes(d.tableAddr, n)
	}
	if cfg.Packed {
		d.enable(0)
		return d, nil
	}
	d.ring.SetAvail(0, cfg.FirstIndex)
	d.ring.SetUsedIdx(cfg.FirstIndex)
	d.ring.SetUsedEvent(cfg.FirstIndex)
	return d, nil
}

// Ring returns the memory of a split ring, for tests that write what no driver
// would. It is nil if the ring is packed.
func (d *Driver) Ring() *Ring { return d.ring }

// Packed returns the memory of a packed ring. It is nil if the ring is split.
func (d *Driver) Packed() *PackedRing {
	if d.packed == nil {
		return nil
	}
	return d.packed.ring
}

// Config returns how the ring was made.
func (d *Driver) Config() Config { return d.cfg }

// Size returns the number of descriptors.
func (d *Driver) Size() uint16 { return d.cfg.Size }

// Addrs returns the guest addresses of the three parts of the ring: descriptors,
// available ring or driver event suppression, used ring or device event
// suppression.
func (d *Driver) Addrs() (desc, avail, used uint64) {
	a := &d.parts().addr
	return a[0], a[1], a[2]
}

func (d *Driver) parts() *parts {
	if d.packed != nil {
		return &d.packed.ring.parts
	}
	return &d.ring.parts
}

// Memory returns the memory that the ring lies in.
func (d *Driver) Memory() *Memory { return d.mem }

// Free returns the number of free descriptors.
func (d *Driver) Free() int { return d.free }

// QueueConfig returns the configuration of the device side of the ring.
func (d *Driver) QueueConfig(writable bool) virtqueue.Config {
	mem := &d.parts().mem
	c := virtqueue.Config{
		Packed: d.cfg.Packed, InOrder: d.cfg.InOrder,
		Size: d.cfg.Size, Desc: mem[0], Avail: mem[1], Used: mem[2],
		Mem: d.mem.Map(), Writable: writable,
		EventIdx: d.cfg.EventIdx, Indirect: d.cfg.Indirect, NextAvail: uint32(d.cfg.FirstIndex),
	}
	if d.cfg.Packed {
		code := lapSlot{slot: d.cfg.FirstIndex % d.cfg.Size, wrap: d.cfg.FirstIndex/d.cfg.Size%2 == 0}.code()
		c.NextAvail = uint32(code)<<16 | uint32(code)
	}
	return c
}
