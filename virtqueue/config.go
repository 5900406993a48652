package virtqueue

import (
	"errors"
	"fmt"
	"math"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
)

// MaxSize is the largest size of a queue (virtio 1.2, 2.7).
const MaxSize = 32768

// Config describes one ring and what was negotiated for it.
type Config struct {
	// Packed: VIRTIO_F_RING_PACKED was negotiated, the ring is a packed one
	// (virtio 1.2, 2.8). Otherwise it is a split one (2.7).
	Packed bool
	// Size is the number of descriptors, 1…32768: a power of two in a split
	// ring, any number in a packed one.
	Size uint16
	// Desc, Avail and Used are the three parts of the ring as mapped in this
	// process, with the lengths that Layout gives: descriptor table, available
	// ring and used ring, aligned to 16, 2 and 4 bytes; or descriptor ring,
	// driver event suppression and device event suppression of a packed ring,
	// aligned to 16, 4 and 4. They must stay mapped as long as the queue is in
	// use.
	Desc, Avail, Used []byte
	// Mem translates the addresses of buffers and indirect tables. Its memory
	// must stay mapped as long as the queue or anything taken from it is in use.
	Mem *guestmem.Map
	// Writable is true when the driver gives buffers for the device to write
	// (receive queue of a network device) and false when the device reads them
	// (transmit queue).
	Writable bool
	// EventIdx: VIRTIO_F_EVENT_IDX was negotiated.
	EventIdx bool
	// Indirect: VIRTIO_F_INDIRECT_DESC was negotiated.
	Indirect bool
	// InOrder: VIRTIO_F_IN_ORDER was negotiated. Chains that are returned ahead
	// of others wait for these inside of the queue, so a device that holds one
	// back for long holds them all back.
	InOrder bool
	// NextAvail is where to go on: what State of a predecessor or Resume
	// returned, or SET_VRING_BASE of vhost-user said. For a fresh
	// ring it is 0, or FreshPacked.
	//
	// Split: the next available index, 16 bits. Packed: in bits 0 to 14 the
	// slot and in bit 15 the wrap counter of the next descriptor to be made
	// available to the device, in bits 16 to 30 and 31 those of the next one
	// to be used. Where the upper half is not 0 and differs from the lower,
	// chains between the two were taken and never returned, and the device
	// goes on at the latter; DPDK leaves it 0.
	NextAvail uint32
	// Logging says whether written pages are marked, for live migration.
	Logging Logging
}

// FreshPacked is the NextAvail of a packed ring that was never used: both wrap
// counters start as 1 (virtio 1.2, 2.8.1).
const FreshPacked uint32 = wrapCounter<<16 | wrapCounter

func (c *Config) check() error {
	if err := c.checkParts(); err != nil {
		return err
	}
	switch {
	case c.Mem == nil:
		return errors.New("virtqueue: no memory map")
	case c.Packed:
		_, err := resumePlace(c.NextAvail, c.Size)
		return err
	case c.NextAvail > math.MaxUint16:
		return fmt.Errorf("virtqueue: available index %#x has more than 16 bits", c.NextAvail)
	}
	return nil
}

// checkParts checks the size and the memory of the ring.
func (c *Config) checkParts() error {
	if err := CheckSize(c.Packed, uint32(c.Size)); err != nil {
		return err
	}
	parts := Layout(c.Packed, c.Size)
	for i, mem := range [...][]byte{c.Desc, c.Avail, c.Used} {
		p := &parts[i]
		if len(mem) != p.Bytes {
			return fmt.Errorf("virtqueue: %s of %d bytes, want %d", p.Name, len(mem), p.Bytes)
		}
		if !aligned(mem, uintptr(p.Align)) {
			return fmt.Errorf("virtqueue: %s is not aligned to %d bytes", p.Name, p.Align)
		}
	}
	return nil
}

// CheckSize reports whether a ring can have size descriptors: 1…32768 (virtio
// 1.2, 2.7 and 2.8), in a split ring a power of two.
func CheckSize(packed bool, size uint32) error {
	switch {
	case size == 0 || size > MaxSize:
		return fmt.Errorf("virtqueue: size %d is not in 1…%d", size, MaxSize)
	case !packed && size&(size-1) != 0:
		return fmt.Errorf("virtqueue: size %d is not a power of two", size)
	}
	return nil
}

// Part is one of the three parts of a ring.
type Part struct {
	Name  string
	Bytes int
	Align int // of its guest address, in bytes
}

// Layout returns the parts of a ring in the order Desc, Avail, Used of [Config]
// (virtio 1.2, 2.7 and 2.8.10.1).
func Layout(packed bool, size uint16) [3]Part {
	if packed {
		return [3]Part{
			{"descriptor ring", DescBytes(size), descAlign},
			{"driver event suppression", eventAreaBytes, eventAreaAlign},
			{"device event suppression", eventAreaBytes, eventAreaAlign},
		}
	}
	return [3]Part{
		{"descriptor table", DescBytes(size), descAlign},
		{"available ring", AvailBytes(size), availAlign},
		{"used ring", UsedBytes(size), usedAlign},
	}
}
