package virtqueue

// walk follows a chain through a table, from descriptor i on, which run has
// stopped at, and gathers its buffers in c. i is below the number of descriptors
// in the table. On a fault c is undefined.
//
// The driver may rewrite descriptors at any time, so what was checked must be
// what is used: each half of a descriptor is read with one load into a copy, and
// if one is read again, nothing is left of what was read first.
func (r *splitRing) walk(c *chain, tab descTable, i uint) fault {
	for end := false; !end; i, end = r.run(c, tab, i) {
		if c.count == r.size {
			return fault{CauseChainTooLong, uint16(i), uint64(r.size)}
		}
		addr, rest := tab.load(i)
		n, flags := rest&lenMask, uint16(rest>>flagsShift)
		if flags&descIndirect != 0 {
			return r.walkIndirect(c, uint16(i), addr, n, flags)
		}
		if f := r.buffer(c, uint16(i), addr, n, flags); f.cause != 0 {
			return f
		}
		if flags&descNext == 0 {
			break
		}
		next := uint(rest >> nextShift)
		if next >= tab.entries {
			return fault{CauseNextRange, uint16(i), uint64(next)}
		}
		i = next
	}
	return c.total(uint16(i))
}

// run gathers buffers as long as there is nothing special about them: direction
// as wanted, as a whole in the region of the one before, room in c.vecs. That is
// nearly all of them. It is a function of its own because without calls in the
// loop everything stays in registers. It returns true at the end of the chain,
// otherwise the descriptor that is for walk to look at.
func (r *splitRing) run(c *chain, tab descTable, i uint) (at uint, end bool) {
	used := len(c.vecs)
	room := c.vecs[used:cap(c.vecs)]
	if left := int(r.size - c.count); len(room) > left {
		room = room[:left]
	}
	if c.wrong {
		return i, false
	}
	win, wanted, entries := r.window, uint64(r.wanted)<<flagsShift, tab.entries
	k, bytes := 0, uint64(0)
	for k < len(room) {
		addr, rest := tab.load(i)
		off, n := addr-win.start, rest&lenMask
		// For n = 0 the left side of the last comparison is as large as can be.
		if rest&((descWrite|descIndirect)<<flagsShift) != wanted || off >= win.size || n-1 >= win.size-off {
			break
		}
		if end = rest&(descNext<<flagsShift) == 0; end {
			room[k] = win.vec(off, n)
			bytes += n
			k++
			break
		}
		next := uint(rest >> nextShift)
		if next >= entries {
			break
		}
		room[k] = win.vec(off, n)
		bytes += n
		k++
		i = next
	}
	c.vecs = c.vecs[:used+k]
	c.bytes += bytes // at most 2^15 times 2^32: no overflow
	c.count += uint32(k)
	return i, end
}

// walkIndirect goes on in the indirect table that descriptor i of the ring
// names. The WRITE bit of that descriptor means nothing (virtio 1.2,
// 2.7.5.3.2), and it does not count as one of the chain's.
func (r *splitRing) walkIndirect(c *chain, i uint16, addr, n uint64, flags uint16) fault {
	table, f := r.table(c, addr, n, flags)
	if f.cause != 0 {
		f.desc = i
		return f
	}
	c.nested = true
	tab := newDescTable(table)
	k, end := r.run(c, tab, 0)
	if end {
		return c.total(uint16(k))
	}
	return r.walk(c, tab, k)
}
