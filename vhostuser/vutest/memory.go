package vutest

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// userOffset lies between guest addresses and the user addresses told to the
// backend, so that a backend that takes one for the other is found out.
const userOffset = 0x7f00_0000_0000

// Span is a piece of guest memory to be made, in bytes.
type Span struct {
	GuestAddr uint64
	Size      uint64
	// FileOffset is where the piece begins in its file; a multiple of the
	// page size.
	FileOffset uint64
}

// Memory is guest memory in files that can be shared with a backend: one memfd
// for each region.
type Memory struct {
	*virtqtest.Memory
	regions  []wire.Region
	fds      []int
	mappings [][]byte
}

// NewMemory makes memory of the given pieces, filled with zeroes.
func NewMemory(spans ...Span) (*Memory, error) {
	m := new(Memory)
	var regions []guestmem.Region
	for _, s := range spans {
		r, err := m.add(s)
		if err != nil {
			m.Close()
			return nil, fmt.Errorf("vutest: guest memory: %w", err)
		}
		regions = append(regions, r)
	}
	var err error
	if m.Memory, err = virtqtest.NewMemory(regions...); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Memory) add(s Span) (guestmem.Region, error) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return guestmem.Region{}, fmt.Errorf("create memfd: %w", err)
	}
	m.fds = append(m.fds, fd)
	if err := unix.Ftruncate(fd, int64(s.FileOffset+s.Size)); err != nil {
		return guestmem.Region{}, fmt.Errorf("size memfd: %w", err)
	}
	b, err := unix.Mmap(fd, int64(s.FileOffset), int(s.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return guestmem.Region{}, fmt.Errorf("map memfd: %w", err)
	}
	m.mappings = append(m.mappings, b)
	r := wire.Region{GuestAddr: s.GuestAddr, Size: s.Size, UserAddr: s.GuestAddr + userOffset, MmapOffset: s.FileOffset}
	m.regions = append(m.regions, r)
	return guestmem.Region{GuestAddr: r.GuestAddr, Size: r.Size, UserAddr: r.UserAddr, Mem: b}, nil
}

// Regions returns what the backend is told about the memory.
func (m *Memory) Regions() []wire.Region { return m.regions }

// FDs returns the files of the regions, in the same order. They stay m's.
func (m *Memory) FDs() []int { return m.fds }

// Close unmaps the memory and closes its files. No guest may use it any more.
func (m *Memory) Close() error {
	var errs []error
	for _, b := range m.mappings {
		errs = append(errs, unix.Munmap(b))
	}
	for _, fd := range m.fds {
		errs = append(errs, unix.Close(fd))
	}
	m.mappings, m.fds = nil, nil
	return errors.Join(errs...)
}
