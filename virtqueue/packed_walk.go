package virtqueue

// walk follows the chain at next and gathers its buffers in c. It returns the
// buffer ID, which is in the last descriptor (virtio 1.2, 2.8.6), and how many
// slots the chain takes. On a fault these and c are undefined.
//
// As in a split ring, a descriptor is copied with one load for either half and
// only the copy counts. That it is available was found out by an earlier load,
// of which nothing else is used.
func (r *packedRing) walk(c *chain) (id uint16, slots uint32, f fault) {
	tab := newDescTable(r.desc)
	i, left := r.next.slot, r.size-r.inUse
	for {
		n, rest, end := r.run(c, tab, i, min(left-c.count, r.size-i), true)
		if i += n; i == r.size {
			i = 0
		}
		if !end {
			if c.count == left {
				return 0, 0, r.overrun(i)
			}
			var addr uint64
			addr, rest = tab.load(uint(i))
			flags := uint16(rest >> packedFlagsShift)
			switch {
			case flags&descIndirect == 0:
				f = r.buffer(c, uint16(i), addr, rest&lenMask, flags)
			case c.count > 0:
				// Lists are direct or indirect, not both (2.8.5, 2.8.19).
				f = fault{CauseIndirectNext, uint16(i), addr}
			default:
				return uint16(rest >> packedIDShift), 1, r.walkTable(c, uint16(i), addr, rest&lenMask, flags)
			}
			if f.cause != 0 {
				return 0, 0, f
			}
			end = flags&descNext == 0
			if i++; i == r.size {
				i = 0
			}
		}
		if end {
			return uint16(rest >> packedIDShift), c.count, c.total(uint16(r.next.slot))
		}
	}
}

// overrun is the fault of a chain that goes on in slot i, which it cannot have.
func (r *packedRing) overrun(i uint32) fault {
	if r.inUse == 0 {
		return fault{CauseChainTooLong, uint16(i), uint64(r.size)}
	}
	return fault{CauseDescInFlight, uint16(i), uint64(r.inUse)}
}

// walkTable gathers the buffers of the indirect table that slot i names. In it
// descriptors follow each other without links, and WRITE is the only flag that
// means anything (virtio 1.2, 2.8.7).
func (r *packedRing) walkTable(c *chain, i uint16, addr, n uint64, flags uint16) fault {
	table, f := r.table(c, addr, n, flags)
	if f.cause != 0 {
		f.desc = i
		return f
	}
	tab := newDescTable(table)
	entries := uint32(tab.entries)
	for k := uint32(0); k < entries; k++ {
		n, _, _ := r.run(c, tab, k, entries-k, false)
		if k += n; k == entries {
			break
		}
		addr, rest := tab.load(uint(k))
		if f := r.buffer(c, uint16(k), addr, rest&lenMask, uint16(rest>>packedFlagsShift)); f.cause != 0 {
			return f
		}
	}
	return c.total(i)
}

// run gathers up to n buffers from descriptor i on as long as there is nothing
// special about them, like its counterpart for split rings. In the ring (linked)
// it ends behind the last descriptor of the chain. It returns how many it has
// gathered, and the second half of the last one.
func (r *packedRing) run(c *chain, tab descTable, i, n uint32, linked bool) (k uint32, rest uint64, end bool) {
	used := len(c.vecs)
	room := c.vecs[used:cap(c.vecs)]
	if len(room) > int(n) {
		room = room[:n]
	}
	if c.wrong {
		return 0, 0, false
	}
	win, wanted, special := r.window, uint64(r.wanted)<<packedFlagsShift, uint64(descWrite)<<packedFlagsShift
	if linked {
		special |= descIndirect << packedFlagsShift
	}
	var bytes, last uint64
	for int(k) < len(room) && !end {
		var addr uint64
		addr, rest = tab.load(uint(i + k))
		off, n := addr-win.start, rest&lenMask
		// For n = 0 the left side of the last comparison is as large as can be.
		if rest&special != wanted || off >= win.size || n-1 >= win.size-off {
			break
		}
		room[k] = win.vec(off, n)
		bytes += n
		k++
		last = rest
		end = linked && rest&(descNext<<packedFlagsShift) == 0
	}
	c.vecs = c.vecs[:used+int(k)]
	c.bytes += bytes // at most 2^15 times 2^32: no overflow
	c.count += k
	return k, last, end
}
