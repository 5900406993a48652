// Package guestmem is the map of a guest's memory: which guest address lies
// where in this process.
//
// A virtual machine monitor shares the guest's RAM as a few files, and tells
// for each piece where the guest sees it (guest address), where the monitor
// itself sees it (user address; vhost-user gives ring addresses in that form)
// and how long it is. The caller maps the pieces; a [Map] only looks addresses
// up and never maps, unmaps or grows anything.
//
// A Map is immutable, so any number of goroutines may use one at a time. When
// the guest's memory changes, make a new Map, hand it over while nobody holds
// memory from the old one, and only then unmap what has gone: slices and
// vectors that come from a Map are valid as long as the mappings behind it,
// which the Map does not keep alive.
//
// The bytes belong to the guest, which may change them at any time. Copy first,
// decide on the copy.
package guestmem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// linearRegions is up to how many regions a scan from the first one beats a
// binary search. QEMU, crosvm and cloud-hypervisor use one to three.
const linearRegions = 8

// ErrUnmapped is the cause of every look-up error: a part of the range lies in
// no region.
var ErrUnmapped = errors.New("not in guest memory")

// RangeError says which range of addresses could not be translated. It matches
// [ErrUnmapped].
type RangeError struct {
	Space string // "guest" or "user"
	Addr  uint64 // first address of the range
	Len   uint64 // bytes
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("guestmem: %d bytes at %s address %#x: %v", e.Len, e.Space, e.Addr, ErrUnmapped)
}

// Unwrap returns [ErrUnmapped].
func (e *RangeError) Unwrap() error { return ErrUnmapped }

// Region is one piece of guest memory, contiguous in all three address spaces.
type Region struct {
	GuestAddr uint64 // first guest-physical address
	Size      uint64 // bytes, not 0
	UserAddr  uint64 // first address in the address space of the frontend
	Mem       []byte // the mapping in this process; len(Mem) == Size
}

// Map translates guest and user addresses. See the package comment for its
// rules of use.
type Map struct {
	regions []Region // sorted by GuestAddr
	byUser  []int    // positions in regions, sorted by UserAddr
	byHost  []int    // positions in regions, sorted by where Mem is
}

// New makes a Map of the given regions, in any order; none at all is legal and
// maps nothing. It refuses regions that are empty, whose end is beyond the last
// 64-bit address, whose mapping has another length, and regions that overlap in
// guest or in user addresses.
func New(regions []Region) (*Map, error) {
	m := &Map{regions: slices.Clone(regions)}
	for i := range m.regions {
		if err := m.regions[i].check(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(m.regions, func(a, b Region) int { return cmp.Compare(a.GuestAddr, b.GuestAddr) })
	m.byUser = make([]int, len(m.regions))
	for i := range m.byUser {
		m.byUser[i] = i
	}
	slices.SortFunc(m.byUser, func(a, b int) int {
		return cmp.Compare(m.regions[a].UserAddr, m.regions[b].UserAddr)
	})
	for i := 1; i < len(m.regions); i++ {
		a, b := &m.regions[i-1], &m.regions[i]
		if b.GuestAddr-a.GuestAddr < a.Size {
			return nil, fmt.Errorf("guestmem: regions at guest addresses %#x and %#x overlap", a.GuestAddr, b.GuestAddr)
		}
		a, b = &m.regions[m.byUser[i-1]], &m.regions[m.byUser[i]]
		if b.UserAddr-a.UserAddr < a.Size {
			return nil, fmt.Errorf("guestmem: regions at user addresses %#x and %#x overlap", a.UserAddr, b.UserAddr)
		}
	}
	m.byHost = sortedByHost(m.regions)
	return m, nil
}

func (r *Region) check() error {
	switch {
	case r.Size == 0:
		return fmt.Errorf("guestmem: region at guest address %#x is empty", r.GuestAddr)
	case r.GuestAddr+r.Size < r.GuestAddr:
		return fmt.Errorf("guestmem: region of %d bytes at guest address %#x wraps around", r.Size, r.GuestAddr)
	case r.UserAddr+r.Size < r.UserAddr:
		return fmt.Errorf("guestmem: region of %d bytes at user address %#x wraps around", r.Size, r.UserAddr)
	case uint64(len(r.Mem)) != r.Size:
		return fmt.Errorf("guestmem: region of %d bytes at guest address %#x has a mapping of %d bytes",
			r.Size, r.GuestAddr, len(r.Mem))
	}
	return nil
}

// Regions returns a copy of the regions, sorted by guest address.
func (m *Map) Regions() []Region { return slices.Clone(m.regions) }

// Find returns the region that holds guestAddr, or nil. The region is the
// Map's own: it must not be changed.
func (m *Map) Find(guestAddr uint64) *Region {
	if i := m.find(guestAddr); i < len(m.regions) {
		return &m.regions[i]
	}
	return nil
}

// find returns the position of the region that holds guestAddr, or
// len(m.regions).
func (m *Map) find(guestAddr uint64) int {
	if len(m.regions) <= linearRegions {
		for i := range m.regions {
			// The difference wraps to a huge number below the region.
			if r := &m.regions[i]; guestAddr-r.GuestAddr < r.Size {
				return i
			}
		}
		return len(m.regions)
	}
	i := sort.Search(len(m.regions), func(i int) bool { return m.regions[i].GuestAddr > guestAddr }) - 1
	if i < 0 || guestAddr-m.regions[i].GuestAddr >= m.regions[i].Size {
		return len(m.regions)
	}
	return i
}

// AppendVecs appends to dst the n bytes at guestAddr: one vector, or more when
// the range runs over the border of regions that follow each other without a
// gap. The whole range must be mapped, otherwise dst comes back as it was, with
// a [RangeError]. It allocates only to grow dst. No bytes are no vector.
func (m *Map) AppendVecs(dst []iov.Vec, guestAddr, n uint64) ([]iov.Vec, error) {
	out := dst
	for addr, left, i := guestAddr, n, m.find(guestAddr); left > 0; i++ {
		if i >= len(m.regions) || addr-m.regions[i].GuestAddr >= m.regions[i].Size {
			return dst, &RangeError{Space: "guest", Addr: guestAddr, Len: n}
		}
		r := &m.regions[i]
		off := addr - r.GuestAddr
		take := min(left, r.Size-off)
		out = append(out, iov.Of(r.Mem[off:off+take]))
		addr += take
		left -= take
	}
	return out, nil
}

// CopyOut fills dst from the memory at guestAddr, over the borders of regions
// that follow each other without a gap. On error the content of dst is
// undefined.
func (m *Map) CopyOut(dst []byte, guestAddr uint64) error {
	for addr, left, i := guestAddr, dst, m.find(guestAddr); len(left) > 0; i++ {
		if i >= len(m.regions) || addr-m.regions[i].GuestAddr >= m.regions[i].Size {
			return &RangeError{Space: "guest", Addr: guestAddr, Len: uint64(len(dst))}
		}
		r := &m.regions[i]
		n := copy(left, r.Mem[addr-r.GuestAddr:])
		left = left[n:]
		addr += uint64(n)
	}
	return nil
}

// Slice returns the n bytes at guestAddr as they are mapped, in one region.
func (m *Map) Slice(guestAddr, n uint64) ([]byte, error) {
	if r := m.Find(guestAddr); r != nil {
		if off := guestAddr - r.GuestAddr; n <= r.Size-off {
			return r.Mem[off : off+n : off+n], nil
		}
	}
	return nil, &RangeError{Space: "guest", Addr: guestAddr, Len: n}
}

// SliceUser returns the n bytes at user address userAddr as they are mapped.
// They must lie in one region: this is for rings, which have to be contiguous.
func (m *Map) SliceUser(userAddr, n uint64) ([]byte, error) {
	if r := m.findUser(userAddr); r != nil {
		if off := userAddr - r.UserAddr; n <= r.Size-off {
			return r.Mem[off : off+n : off+n], nil
		}
	}
	return nil, &RangeError{Space: "user", Addr: userAddr, Len: n}
}

func (m *Map) findUser(userAddr uint64) *Region {
	i := sort.Search(len(m.byUser), func(i int) bool { return m.regions[m.byUser[i]].UserAddr > userAddr }) - 1
	if i < 0 {
		return nil
	}
	if r := &m.regions[m.byUser[i]]; userAddr-r.UserAddr < r.Size {
		return r
	}
	return nil
}

// GuestToUser returns the user address of the byte at guestAddr.
func (m *Map) GuestToUser(guestAddr uint64) (uint64, error) {
	r := m.Find(guestAddr)
	if r == nil {
		return 0, &RangeError{Space: "guest", Addr: guestAddr, Len: 1}
	}
	return guestAddr - r.GuestAddr + r.UserAddr, nil
}

// UserToGuest returns the guest address of the byte at userAddr.
func (m *Map) UserToGuest(userAddr uint64) (uint64, error) {
	r := m.findUser(userAddr)
	if r == nil {
		return 0, &RangeError{Space: "user", Addr: userAddr, Len: 1}
	}
	return userAddr - r.UserAddr + r.GuestAddr, nil
}
