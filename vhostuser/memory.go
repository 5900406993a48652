package vhostuser

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
)

// memory is the guest's memory as far as the frontend has shared it.
type memory struct {
	regions []*region
	gm      *guestmem.Map // of regions; nil without any
}

// lookupMap returns the map over regions, which must not overlap.
func lookupMap(regions []*region) (*guestmem.Map, error) {
	if len(regions) == 0 {
		return nil, nil
	}
	gr := make([]guestmem.Region, len(regions))
	for i, r := range regions {
		gr[i] = guestmem.Region{GuestAddr: r.GuestAddr, Size: r.Size, UserAddr: r.UserAddr, Mem: r.mem}
	}
	return guestmem.New(gr)
}

// end is the guest address behind the last byte.
func (m *memory) end() (end uint64) {
	for _, r := range m.regions {
		end = max(end, r.GuestAddr+r.Size)
	}
	return end
}

// unmapAll unmaps all regions. Nothing may use the memory any more.
func (m *memory) unmapAll() {
	unmapRegions(m.regions)
	*m = memory{}
}

func unmapRegions(rs []*region) {
	for _, r := range rs {
		r.unmap()
	}
}

// setMemTable replaces the whole memory.
func (s *session) setMemTable(m *wire.Message) ([]byte, error) {
	var t wire.MemTable
	if err := wire.Decode(m.Payload, &t); err != nil {
		return nil, err
	}
	if len(t.Regions) != len(m.FDs) {
		return nil, fmt.Errorf("%d regions with %d file descriptors", len(t.Regions), len(m.FDs))
	}
	if len(t.Regions) > s.srv.cfg.MemSlots {
		return nil, fmt.Errorf("%d regions, the limit is %d", len(t.Regions), s.srv.cfg.MemSlots)
	}
	next := make([]*region, 0, len(t.Regions))
	for i, wr := range t.Regions {
		r, err := mapRegion(wr, m.FDs[i])
		if err != nil {
			unmapRegions(next)
			return nil, fmt.Errorf("region %d: %w", i, err)
		}
		next = append(next, r)
	}
	if err := s.changeMemory(next, s.mem.regions); err != nil {
		unmapRegions(next)
		return nil, err
	}
	return nil, nil
}

// addMemReg adds one region.
func (s *session) addMemReg(m *wire.Message) ([]byte, error) {
	var sr wire.SingleRegion
	if err := wire.Decode(m.Payload, &sr); err != nil {
		return nil, err
	}
	if n := len(s.mem.regions); n >= s.srv.cfg.MemSlots {
		return nil, fmt.Errorf("all %d memory slots are in use", n)
	}
	r, err := mapRegion(sr.Region, m.FDs[0])
	if err != nil {
		return nil, err
	}
	if err := s.changeMemory(append(slices.Clone(s.mem.regions), r), nil); err != nil {
		r.unmap()
		return nil, err
	}
	return nil, nil
}

// remMemReg removes the region with the same addresses and size; the offset in
// its file does not count.
func (s *session) remMemReg(m *wire.Message) ([]byte, error) {
	var sr wire.SingleRegion
	if err := wire.Decode(m.Payload, &sr); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.mem.regions, func(r *region) bool {
		return r.GuestAddr == sr.Region.GuestAddr && r.UserAddr == sr.Region.UserAddr && r.Size == sr.Region.Size
	})
	if i < 0 {
		return nil, errors.New("no such region")
	}
	gone := s.mem.regions[i]
	return nil, s.changeMemory(slices.Delete(slices.Clone(s.mem.regions), i, i+1), []*region{gone})
}

// changeMemory makes next the guest's memory and unmaps gone. Rings that run
// are taken from the device and, by settle, found again in the new memory, all
// while the device is parked. On error nothing has changed.
func (s *session) changeMemory(next, gone []*region) error {
	gm, err := lookupMap(next)
	if err != nil {
		return err
	}
	s.park(func() {
		s.suspendAll(s.rings)
		s.mem = memory{regions: next, gm: gm}
		unmapRegions(gone)
		s.startReady()
	})
	return nil
}

func (s *session) getMaxMemSlots(*wire.Message) ([]byte, error) {
	return u64(uint64(s.srv.cfg.MemSlots))
}
