package virtqtest

// packedDriver is what the driver of a packed ring has beside a Driver's fields.
type packedDriver struct {
	ring *PackedRing

	avail, used lapSlot // where the next descriptor goes, and comes from
	added       int     // slots since the last decision on a kick

	// The first descriptor that was added and not published: its flags are not
	// in memory yet, so the device does not see those behind it either.
	held     bool
	heldSlot uint16
	heldDesc PackedDesc
}

// lapSlot is a slot and the wrap counter (virtio 1.2, 2.8.1).
type lapSlot struct {
	slot uint16
	wrap bool
}

func (l lapSlot) add(n int, size uint16) lapSlot {
	at := int(l.slot) + n
	if at >= int(size) {
		at -= int(size)
		l.wrap = !l.wrap
	}
	l.slot = uint16(at)
	return l
}

func (l lapSlot) code() uint16 {
	if l.wrap {
		return l.slot | 1<<15
	}
	return l.slot
}

// availFlags are AVAIL and USED of a descriptor made available in this lap.
func (l lapSlot) availFlags() uint16 {
	if l.wrap {
		return FlagAvail
	}
	return FlagUsed
}

// usedFlags are AVAIL and USED of a descriptor used in this lap.
func (l lapSlot) usedFlags() uint16 {
	if l.wrap {
		return FlagAvail | FlagUsed
	}
	return 0
}

// newPackedDriver makes a ring through which first descriptors have gone.
func newPackedDriver(mem *Memory, size, first uint16) (*packedDriver, error) {
	r, err := newPackedRing(mem, size)
	if err != nil {
		return nil, err
	}
	at := lapSlot{slot: first % size, wrap: first/size%2 == 0}
	for i := range size {
		if first == 0 {
			break // never used: all zero
		}
		d := at
		if i >= at.slot {
			d.wrap = !at.wrap
		}
		// As a chain of one buffer left it.
		r.SetDesc(i, PackedDesc{ID: i, Len: 1, Flags: d.usedFlags()})
	}
	return &packedDriver{ring: r, avail: at, used: at}, nil
}

// addPacked adds a chain of the descriptors of its buffers, in the ring or in the
// indirect table of its first slot, as chain id.
func (d *Driver) addPacked(id uint16, direct bool, readable, writable []Buffer) {
	p := d.packed
	n := len(readable) + len(writable)
	if !direct {
		slot := p.avail.slot
		off := uint64(slot) * uint64(d.cfg.IndirectEntries) * descBytes
		for k := range n {
			b := d.describe(id, k, readable, writable)
			// All but WRITE is to be ignored (virtio 1.2, 2.8.7).
			putPackedDesc(d.tables[off:], uint16(k), PackedDesc{
				Addr: b.Addr, Len: b.Len, ID: 0xdead, Flags: b.Flags | FlagNext | FlagIndirect,
			})
		}
		p.put(PackedDesc{Addr: d.tableAddr + off, Len: uint32(descBytes * n), ID: id, Flags: FlagIndirect | FlagWrite})
		return
	}
	for k := range n {
		b := d.describe(id, k, readable, writable)
		desc := PackedDesc{Addr: b.Addr, Len: b.Len, ID: id, Flags: b.Flags}
		if k+1 < n {
			// The ID that counts is the last one (2.8.6).
			desc.Flags |= FlagNext
			desc.ID = ^id
		}
		p.put(desc)
	}
}

// put writes the next descriptor. The first one since the last publication stays
// hidden, with its flags, and thereby all behind it.
func (p *packedDriver) put(desc PackedDesc) {
	desc.Flags |= p.avail.availFlags()
	if p.held {
		p.ring.SetDesc(p.avail.slot, desc)
	} else {
		p.held, p.heldSlot, p.heldDesc = true, p.avail.slot, desc
	}
	p.avail = p.avail.add(1, p.ring.size)
	p.added++
}

func (p *packedDriver) publish() {
	if p.held {
		p.held = false
		p.ring.Show(p.heldSlot, p.heldDesc)
	}
}

// wantsKick decides on a kick for what was added since the last decision.
func (p *packedDriver) wantsKick(eventIdx bool) bool {
	n := p.added
	p.added = 0
	at, flags := p.ring.DeviceEvent()
	if n == 0 || flags == EventDisable {
		return false
	}
	if flags != EventDesc || !eventIdx {
		return true
	}
	end, event := int(p.avail.slot), int(at&^(1<<15))
	if (at>>15 == 1) != p.avail.wrap {
		event -= int(p.ring.size)
	}
	return end-n <= event && event < end
}

// next reads the used descriptor that the device writes next.
func (p *packedDriver) next() (id uint16, n uint32, ok bool) {
	id, flags := p.ring.Mark(p.used.slot)
	if flags&(FlagAvail|FlagUsed) != p.used.usedFlags() {
		return 0, 0, false
	}
	if flags&FlagWrite == 0 {
		return id, 0, true // the length is reserved (2.8.4)
	}
	return id, p.ring.Desc(p.used.slot).Len, true
}
