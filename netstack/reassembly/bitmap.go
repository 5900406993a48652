package reassembly

// units is how many units of 8 bytes the largest datagram has.
const units = (maxDatagram + 1) / unitBytes

// bitmap has one bit for each unit of a datagram.
type bitmap [units / 64]uint64

// has reports whether bit u is set; bits outside are not.
func (b *bitmap) has(u int) bool { return u < units && b[u/64]>>(u%64)&1 != 0 }

// set sets the bits from to end-1.
func (b *bitmap) set(from, end int) {
	for from < end {
		mask, next := word(from, end)
		b[from/64] |= mask
		from = next
	}
}

// any reports whether one of the bits from to end-1 is set.
func (b *bitmap) any(from, end int) bool {
	for from < end {
		mask, next := word(from, end)
		if b[from/64]&mask != 0 {
			return true
		}
		from = next
	}
	return false
}

// all reports whether each of the bits from to end-1 is set.
func (b *bitmap) all(from, end int) bool {
	for from < end {
		mask, next := word(from, end)
		if b[from/64]&mask != mask {
			return false
		}
		from = next
	}
	return true
}

// word is the part of the bits from to end-1 that lies in the word of from, as a
// mask of that word, and where the rest begins.
func word(from, end int) (mask uint64, next int) {
	in := from % 64
	n := min(64-in, end-from)
	return ^uint64(0) >> (64 - n) << in, from + n
}
