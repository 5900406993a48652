package vhostuser

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// region is a mapped piece of guest memory.
type region struct {
	wire.Region
	mem     []byte // the region itself
	mapping []byte // mem with what alignment adds in front and behind
}

// mapRegion maps what wr describes from fd, which stays the caller's and may be
// closed afterwards.
func mapRegion(wr wire.Region, fd int) (*region, error) {
	if wr.GuestAddr+wr.Size < wr.Size || wr.UserAddr+wr.Size < wr.Size {
		return nil, fmt.Errorf("size %#x goes past the end of the address space", wr.Size)
	}
	mapping, skip, err := mapShared(fd, wr.MmapOffset, wr.Size)
	if err != nil {
		return nil, err
	}
	return &region{Region: wr, mapping: mapping, mem: mapping[skip:][:wr.Size:wr.Size]}, nil
}

// mapShared maps size bytes at offset of a file that the frontend shares. They
// begin skip bytes behind the start of the mapping.
func mapShared(fd int, offset, size uint64) (mapping []byte, skip uint64, err error) {
	end := offset + size
	switch {
	case size == 0:
		return nil, 0, errors.New("size is zero")
	case end < size || end > math.MaxInt64:
		return nil, 0, fmt.Errorf("offset %#x and size %#x overflow", offset, size)
	}
	align, err := mapAlignment(fd, end)
	if err != nil {
		return nil, 0, err
	}
	start := offset &^ (align - 1)
	length := (end - start + align - 1) &^ (align - 1)
	if length > math.MaxInt {
		return nil, 0, fmt.Errorf("size %#x is too large", size)
	}
	// Without reserve: the memory is the frontend's, accounted for already.
	b, err := unix.Mmap(fd, int64(start), int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, 0, fmt.Errorf("map %d bytes at offset %#x: %w", length, start, err)
	}
	// A core dump must not hold the guest's secrets; without effect on what
	// the guest can do, so a kernel that refuses is none of our business.
	_ = unix.Madvise(b, unix.MADV_DONTDUMP)
	return b, offset - start, nil
}

// mapAlignment checks that fd is a file that can be mapped up to end, and
// returns the power of two that its mappings must be aligned to.
func mapAlignment(fd int, end uint64) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("stat memory file: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, errors.New("memory is not shared through a regular file or memfd")
	}
	if uint64(st.Size) < end {
		return 0, fmt.Errorf("memory file is %d bytes long, the region ends at %d", st.Size, end)
	}
	sealShrink(fd)
	align := uint64(unix.Getpagesize())
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, fmt.Errorf("stat file system of memory file: %w", err)
	}
	if fs.Type == unix.HUGETLBFS_MAGIC {
		align = uint64(fs.Bsize) // the size of its huge pages
	}
	return align, nil
}

// sealShrink forbids to cut the file short, which would turn each access beyond
// its new end into SIGBUS. It works for memfds made with MFD_ALLOW_SEALING, as
// QEMU does; for others the frontend has to be trusted that far.
func sealShrink(fd int) {
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
}

// unmap unmaps the region. Nothing may use its memory any more.
func (r *region) unmap() {
	if r.mapping != nil {
		_ = unix.Munmap(r.mapping) // fails only for a range that was never mapped
		r.mem, r.mapping = nil, nil
	}
}
