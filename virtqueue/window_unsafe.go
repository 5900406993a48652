package virtqueue

import (
	"unsafe"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// window is a region of guest memory in the form in which the walk of a chain
// needs it.
type window struct {
	start, size uint64
	base        *byte
}

func newWindow(r *guestmem.Region) window {
	return window{start: r.GuestAddr, size: r.Size, base: unsafe.SliceData(r.Mem)}
}

// vec is n bytes at off. The caller has checked that they are in the window,
// which has memory of that size behind it as guestmem.New makes sure.
func (w *window) vec(off, n uint64) iov.Vec {
	return iov.Vec{Base: (*byte)(unsafe.Add(unsafe.Pointer(w.base), off)), Len: n}
}

// descTable is a descriptor table.
type descTable struct {
	base    *byte
	entries uint
}

func newDescTable(table []byte) descTable {
	return descTable{unsafe.SliceData(table), uint(len(table) / descBytes)}
}

// load copies descriptor i, which the caller has checked to be in the table,
// with one load for either half: the address, then length, flags and next from
// the lowest bit up. An indirect table may lie at any address; neither amd64
// nor arm64 minds.
func (t descTable) load(i uint) (addr, rest uint64) {
	p := (*[2]uint64)(unsafe.Add(unsafe.Pointer(t.base), i*descBytes))
	return p[0], p[1]
}
