package virtqtest

import (
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
)

// heapUserOffset lies between guest and user addresses of a heap region, so
// that code which takes one for the other is found out.
const heapUserOffset = 1 << 40

// Memory is the guest's RAM as the guest's kernel sees it: regions, and a
// simple allocator that never takes anything back.
type Memory struct {
	regions []guestmem.Region // in the order given
	free    []uint64          // by region: offset of the first byte not handed out
	m       *guestmem.Map
}

// NewMemory makes a Memory of regions. Their mappings may be anything: a part of
// a memfd that a backend maps too, or Go memory ([HeapRegion]).
func NewMemory(regions ...guestmem.Region) (*Memory, error) {
	m, err := guestmem.New(regions)
	if err != nil {
		return nil, fmt.Errorf("virtqtest: %w", err)
	}
	return &Memory{regions: append([]guestmem.Region(nil), regions...), free: make([]uint64, len(regions)), m: m}, nil
}

// HeapRegion makes a region of size bytes of Go memory, aligned to a page.
func HeapRegion(guestAddr, size uint64) guestmem.Region {
	// Large objects start on pages of their own.
	mem := make([]byte, max(size, 1<<16))[:size:size]
	return guestmem.Region{GuestAddr: guestAddr, Size: size, UserAddr: guestAddr + heapUserOffset, Mem: mem}
}

// Map returns the device's view of the memory.
func (m *Memory) Map() *guestmem.Map { return m.m }

// Alloc reserves n bytes in one region, aligned to align (a power of two) in
// guest addresses, in the first region that has room.
func (m *Memory) Alloc(n, align uint64) (guestAddr uint64, err error) {
	for i := range m.regions {
		if guestAddr, err = m.AllocIn(i, n, align); err == nil {
			return guestAddr, nil
		}
	}
	return 0, err
}

// AllocIn is Alloc in region number i, counted as NewMemory got them.
func (m *Memory) AllocIn(i int, n, align uint64) (guestAddr uint64, err error) {
	r := &m.regions[i]
	off := (r.GuestAddr+m.free[i]+align-1)&^(align-1) - r.GuestAddr
	if off > r.Size || n > r.Size-off {
		return 0, fmt.Errorf("virtqtest: no room for %d bytes", n)
	}
	m.free[i] = off + n
	return r.GuestAddr + off, nil
}

// Bytes returns the n bytes at guestAddr, which must lie in one region; it
// panics otherwise, for the driver knows its own memory.
func (m *Memory) Bytes(guestAddr, n uint64) []byte {
	b, err := m.m.Slice(guestAddr, n)
	if err != nil {
		panic(err)
	}
	return b
}
