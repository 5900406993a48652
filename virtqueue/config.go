package virtqueue

import (
	"errors"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
)

// MaxSize is the largest size of a queue (virtio 1.2, 2.7).
const MaxSize = 32768

// Config describes one split ring and what was negotiated for it.
type Config struct {
	// Size is the number of descriptors: a power of two, 1…32768.
	Size uint16
	// Desc, Avail and Used are the three parts of the ring as mapped in this
	// process, with the lengths that DescBytes, AvailBytes and UsedBytes give
	// and aligned to 16, 2 and 4 bytes. They must stay mapped as long as the
	// queue is in use.
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
	// NextAvail is where to go on in the available ring: 0 for a fresh ring,
	// otherwise what State or ResumeIndex of a predecessor returned.
	NextAvail uint16
}

func (c *Config) check() error {
	if c.Size == 0 || c.Size > MaxSize || c.Size&(c.Size-1) != 0 {
		return fmt.Errorf("virtqueue: size %d is not a power of two in 1…%d", c.Size, MaxSize)
	}
	if c.Mem == nil {
		return errors.New("virtqueue: no memory map")
	}
	for _, p := range []struct {
		name  string
		mem   []byte
		bytes int
		align uintptr
	}{
		{"descriptor table", c.Desc, DescBytes(c.Size), descAlign},
		{"available ring", c.Avail, AvailBytes(c.Size), availAlign},
		{"used ring", c.Used, UsedBytes(c.Size), usedAlign},
	} {
		if len(p.mem) != p.bytes {
			return fmt.Errorf("virtqueue: %s of %d bytes, want %d", p.name, len(p.mem), p.bytes)
		}
		if !aligned(p.mem, p.align) {
			return fmt.Errorf("virtqueue: %s is not aligned to %d bytes", p.name, p.align)
		}
	}
	return nil
}
