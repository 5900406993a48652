package virtqueue

import (
	"encoding/binary"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// walk follows a chain through table, from descriptor i on, and gathers its
// buffers in c. On a fault c is undefined.
//
// This is the one place that reads descriptors, and it reads each half of each
// once: the driver may rewrite them meanwhile, so what was checked must be what
// is used.
func (r *splitRing) walk(c *chain, table []byte, i uint32) fault {
	vecs, bytes, count := c.vecs, c.bytes, c.count
	entries := uint32(len(table) / descBytes)
	for {
		if count == r.size {
			return fault{CauseChainTooLong, uint16(i), uint64(count)}
		}
		d := table[i*descBytes : i*descBytes+descBytes]
		addr := binary.LittleEndian.Uint64(d)
		rest := binary.LittleEndian.Uint64(d[8:])
		n, flags := rest&0xffffffff, uint16(rest>>32)

		if flags&(descWrite|descIndirect) != r.wanted || c.wrong {
			if flags&descIndirect != 0 {
				c.vecs, c.bytes, c.count = vecs, bytes, count
				return r.walkIndirect(c, uint16(i), addr, n, flags)
			}
			if !r.direction(c, flags, count) {
				return fault{CauseOrder, uint16(i), addr}
			}
		}
		if n == 0 {
			return fault{CauseZeroLength, uint16(i), addr}
		}
		if off := addr - r.region.GuestAddr; off < r.region.Size && n <= r.region.Size-off {
			vecs = append(vecs, iov.Of(r.region.Mem[off:off+n]))
		} else {
			// One such buffer may become many vectors: bound them now.
			if bytes+n > maxChainBytes {
				return fault{CauseChainTooBig, uint16(i), bytes + n}
			}
			var ok bool
			if vecs, ok = r.mapSlow(vecs, addr, n); !ok {
				return fault{CauseUnmapped, uint16(i), addr}
			}
		}
		count++
		bytes += n // at most 2^15 times 2^32: no overflow
		if flags&descNext == 0 {
			break
		}
		next := uint32(rest >> 48)
		if next >= entries {
			return fault{CauseNextRange, uint16(i), uint64(next)}
		}
		i = next
	}
	if bytes > maxChainBytes {
		return fault{CauseChainTooBig, uint16(i), bytes}
	}
	c.vecs, c.bytes, c.count = vecs, bytes, count
	return fault{}
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
	return r.walk(c, table, 0)
}
