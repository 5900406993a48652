package wire

import (
	"fmt"

	"github.com/u-root/u-root/pkg/uio"
)

// Region describes one piece of guest memory. The file that holds it travels as
// a descriptor beside the message.
type Region struct {
	GuestAddr  uint64 // guest physical address
	Size       uint64 // in bytes
	UserAddr   uint64 // address in the frontend's own mapping
	MmapOffset uint64 // where the region begins in its file, in bytes
}

// Marshal appends r to l.
func (r *Region) Marshal(l *uio.Lexer) {
	for _, v := range [...]uint64{r.GuestAddr, r.Size, r.UserAddr, r.MmapOffset} {
		l.Write64(v)
	}
}

// Unmarshal reads r from l.
func (r *Region) Unmarshal(l *uio.Lexer) error {
	for _, v := range [...]*uint64{&r.GuestAddr, &r.Size, &r.UserAddr, &r.MmapOffset} {
		*v = l.Read64()
	}
	return l.Error()
}

// SingleRegion is the payload of ADD_MEM_REG and REM_MEM_REG.
type SingleRegion struct {
	Region Region
}

// Marshal appends s to l.
func (s *SingleRegion) Marshal(l *uio.Lexer) {
	l.Write64(0) // padding
	s.Region.Marshal(l)
}

// Unmarshal reads s from l.
func (s *SingleRegion) Unmarshal(l *uio.Lexer) error {
	l.Read64()
	return s.Region.Unmarshal(l)
}

// MemTable is the payload of SET_MEM_TABLE.
type MemTable struct {
	Regions []Region
}

// Marshal appends t to l.
func (t *MemTable) Marshal(l *uio.Lexer) {
	l.Write32(uint32(len(t.Regions)))
	l.Write32(0) // padding
	for i := range t.Regions {
		t.Regions[i].Marshal(l)
	}
}

// Unmarshal reads t from l. What follows the announced number of regions is
// skipped: User Mode Linux 6.1 sends a table of fixed size.
func (t *MemTable) Unmarshal(l *uio.Lexer) error {
	n := l.Read32()
	l.Read32()
	if err := l.Error(); err != nil {
		return err
	}
	if uint64(l.Len()) < uint64(n)*RegionSize {
		return fmt.Errorf("%d regions announced, %d bytes follow", n, l.Len())
	}
	t.Regions = make([]Region, n)
	for i := range t.Regions {
		if err := t.Regions[i].Unmarshal(l); err != nil {
			return err
		}
	}
	l.Consume(l.Len())
	return l.Error()
}
