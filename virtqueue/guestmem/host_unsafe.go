package guestmem

import (
	"cmp"
	"slices"
	"sort"
	"unsafe"
)

// hostAddr is the first address of the region's mapping.
func (r *Region) hostAddr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(r.Mem))) }

// sortedByHost returns the positions in regions, sorted by where they are mapped.
func sortedByHost(regions []Region) []int {
	order := make([]int, len(regions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(regions[a].hostAddr(), regions[b].hostAddr()) })
	return order
}

// HostToGuest returns the guest address of the byte at p, and whether that is in
// guest memory: the way back from a vector of AppendVecs. It allocates nothing.
func (m *Map) HostToGuest(p *byte) (guestAddr uint64, ok bool) {
	at := uintptr(unsafe.Pointer(p))
	i := sort.Search(len(m.byHost), func(i int) bool { return m.regions[m.byHost[i]].hostAddr() > at }) - 1
	if i < 0 {
		return 0, false
	}
	r := &m.regions[m.byHost[i]]
	off := uint64(at - r.hostAddr())
	return r.GuestAddr + off, off < r.Size
}
