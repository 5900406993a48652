package virtqtest

import "fmt"

// Add puts a chain into the available ring: readable buffers first, then
// writable ones, either of which may be missing. As Linux does, it uses an
// indirect table if it may and there is more than one buffer. The device does
// not see the chain before [Driver.Publish] or [Driver.Kick].
//
// It returns the head of the chain, or its buffer ID in a packed ring, by which [Driver.Reap] names it, or
// [ErrFull].
func (d *Driver) Add(readable, writable []Buffer) (head uint16, err error) {
	n := len(readable) + len(writable)
	if d.cfg.Indirect && n > 1 && n <= int(d.cfg.IndirectEntries) {
		return d.AddSplit(0, readable, writable)
	}
	return d.AddSplit(n, readable, writable)
}

// AddSplit is [Driver.Add] with the first direct buffers in the ring's own
// table and the others in an indirect one, which follows as the last descriptor
// of the chain. In a packed ring all or none must be direct (virtio 1.2, 2.8.5).
func (d *Driver) AddSplit(direct int, readable, writable []Buffer) (head uint16, err error) {
	n := len(readable) + len(writable)
	slots := direct
	if direct < n {
		slots++
		if !d.cfg.Indirect || n-direct > int(d.cfg.IndirectEntries) {
			return 0, fmt.Errorf("virtqtest: no room for %d buffers in an indirect table", n-direct)
		}
	}
	if n == 0 || direct > n || d.packed != nil && direct > 0 && direct < n {
		return 0, fmt.Errorf("virtqtest: chain of %d buffers, %d of them direct", n, direct)
	}
	if slots > d.free {
		return 0, ErrFull
	}
	head = d.freeHead
	if d.packed != nil && d.cfg.InOrder {
		head = d.packed.avail.slot // as Linux and DPDK do
	}
	d.heads[head] = headState{count: uint16(slots)}
	if d.packed != nil {
		d.addPacked(head, direct > 0, readable, writable)
		d.freeHead = d.next[head]
	} else {
		d.addSplit(head, direct, slots, readable, writable)
		d.expose(head)
	}
	d.free -= slots
	if d.cfg.InOrder {
		d.order[(d.orderFirst+d.orderN)%len(d.order)] = head
		d.orderN++
	}
	return head, nil
}

// addSplit writes the descriptors of a chain into a split ring.
func (d *Driver) addSplit(head uint16, direct, slots int, readable, writable []Buffer) {
	i := head
	for k := range direct {
		desc := d.describe(head, k, readable, writable)
		if k+1 < slots {
			desc.Flags |= FlagNext
			desc.Next = d.next[i]
		}
		d.ring.SetDesc(i, desc)
		if k+1 < slots {
			i = d.next[i]
		}
	}
	if slots > direct {
		d.fillTable(head, i, direct, readable, writable)
	}
	d.freeHead = d.next[i]
}

// describe makes the descriptor of buffer k of a chain.
func (d *Driver) describe(head uint16, k int, readable, writable []Buffer) Desc {
	if k < len(readable) {
		b := readable[k]
		return Desc{Addr: b.Addr, Len: b.Len}
	}
	b := writable[k-len(readable)]
	d.heads[head].writable += uint64(b.Len)
	return Desc{Addr: b.Addr, Len: b.Len, Flags: FlagWrite}
}

// fillTable writes the buffers from number first on into the indirect table of
// descriptor i, and the descriptor itself.
func (d *Driver) fillTable(head, i uint16, first int, readable, writable []Buffer) {
	n := len(readable) + len(writable)
	off := uint64(i) * uint64(d.cfg.IndirectEntries) * descBytes
	table := d.tables[off:]
	for k := first; k < n; k++ {
		desc := d.describe(head, k, readable, writable)
		if k+1 < n {
			desc.Flags |= FlagNext
			desc.Next = uint16(k + 1 - first)
		}
		putDesc(table, uint16(k-first), desc)
	}
	d.ring.SetDesc(i, Desc{Addr: d.tableAddr + off, Len: uint32(descBytes * (n - first)), Flags: FlagIndirect})
}

// expose puts head into the next slot of the available ring.
func (d *Driver) expose(head uint16) {
	d.ring.SetAvailSlot(d.availIdx, head)
	d.availIdx++
}

// Publish makes all added chains available to the device.
func (d *Driver) Publish() {
	if d.packed != nil {
		d.packed.publish()
		return
	}
	if d.published != d.availIdx {
		d.published = d.availIdx
		d.ring.SetAvail(d.availFlags, d.availIdx)
	}
}

// Kick is Publish, and reports whether the device wants a kick for what was
// published since the last Kick.
func (d *Driver) Kick() bool {
	d.Publish()
	if d.packed != nil {
		d.fence.Full()
		return d.packed.wantsKick(d.cfg.EventIdx)
	}
	old, now := d.kickedIdx, d.published
	if old == now {
		return false
	}
	d.kickedIdx = now
	d.fence.Full()
	if d.cfg.EventIdx {
		return needEvent(d.ring.AvailEvent(), now, old)
	}
	flags, _ := d.ring.Used()
	return flags&1 == 0
}

// needEvent reports whether an index that moved from old to now has passed
// event (virtio 1.2, 2.7.10.1).
func needEvent(event, now, old uint16) bool { return now-event-1 < now-old }
