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
	Size     uint16 // descriptors: a power of two, 1…32768
	EventIdx bool   // VIRTIO_F_EVENT_IDX was negotiated
	Indirect bool   // VIRTIO_F_INDIRECT_DESC was negotiated
	// IndirectEntries is the length of the indirect table that each descriptor
	// has; 0 means 19 or Size, whichever is less.
	IndirectEntries uint16
	// FirstIndex is where both ring indices start, as in a ring that has been
	// in use.
	FirstIndex uint16
	// OddAvail puts the available ring at an address that is 2 modulo 4.
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

// Driver is the driver of one split ring. One goroutine at a time may use it;
// the device runs beside it. After NewDriver nothing allocates.
type Driver struct {
	ring  *Ring
	cfg   Config
	mem   *Memory
	fence order.Fence

	next     []uint16 // by descriptor: the one behind it, in a chain or in the free list
	heads    []headState
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
}

// NewDriver lays a ring out in mem.
func NewDriver(mem *Memory, cfg Config) (*Driver, error) {
	if cfg.Size == 0 || cfg.Size > virtqueue.MaxSize || cfg.Size&(cfg.Size-1) != 0 {
		return nil, fmt.Errorf("virtqtest: size %d is not a power of two in 1…%d", cfg.Size, virtqueue.MaxSize)
	}
	ring, err := newRing(mem, cfg.Size, cfg.OddAvail)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		ring: ring, cfg: cfg, mem: mem,
		next: make([]uint16, cfg.Size), heads: make([]headState, cfg.Size), free: int(cfg.Size),
		availIdx: cfg.FirstIndex, published: cfg.FirstIndex, kickedIdx: cfg.FirstIndex,
		lastUsed: cfg.FirstIndex, usedIdx: cfg.FirstIndex,
	}
	for i := range d.next {
		d.next[i] = uint16(i + 1)
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
	ring.SetAvail(0, cfg.FirstIndex)
	ring.SetUsedIdx(cfg.FirstIndex)
	ring.SetUsedEvent(cfg.FirstIndex)
	return d, nil
}

// Ring returns the memory of the ring, for tests that write what no driver
// would.
func (d *Driver) Ring() *Ring { return d.ring }

// Memory returns the memory that the ring lies in.
func (d *Driver) Memory() *Memory { return d.mem }

// Free returns the number of free descriptors.
func (d *Driver) Free() int { return d.free }

// QueueConfig returns the configuration of the device side of the ring.
func (d *Driver) QueueConfig(writable bool) virtqueue.Config {
	return virtqueue.Config{
		Size: d.cfg.Size, Desc: d.ring.desc, Avail: d.ring.avail, Used: d.ring.used,
		Mem: d.mem.Map(), Writable: writable,
		EventIdx: d.cfg.EventIdx, Indirect: d.cfg.Indirect, NextAvail: d.cfg.FirstIndex,
	}
}
