package virtqtest

import "math/rand/v2"

// Scribble changes one field of one descriptor of the ring's table, as a guest
// that hopes for a device which reads it twice. It may run beside the device,
// in a loop, in a goroutine of its own; the race detector does not see it.
//
//go:norace
func (r *Ring) Scribble(rng *rand.Rand) { scribble(r.desc, rng, 12, 14) }

// Scribble is [Ring.Scribble] for a packed ring.
//
//go:norace
func (r *PackedRing) Scribble(rng *rand.Rand) { scribble(r.parts.mem[0], rng, 14, 12) }

// ScribbleTables is [Ring.Scribble] on the driver's indirect tables.
//
//go:norace
func (d *Driver) ScribbleTables(rng *rand.Rand) { scribble(d.tables, rng, 12, 14) }

// scribble changes a descriptor whose flags, and next or ID, are at the given
// offsets.
//
//go:norace
func scribble(table []byte, rng *rand.Rand, flags, link int) {
	d := table[rng.IntN(len(table)/descBytes)*descBytes:][:descBytes]
	switch rng.IntN(7) {
	case 0: // an address nearby, or far away
		d[rng.IntN(8)] = byte(rng.Uint32())
	case 1: // a length
		d[8+rng.IntN(4)] = byte(rng.Uint32())
	case 2, 3: // flags that are defined
		d[flags] ^= byte(1 << rng.IntN(3))
	case 4: // a next or ID nearby
		d[link] = byte(rng.Uint32())
	case 5: // no length at all
		d[8], d[9], d[10], d[11] = 0, 0, 0, 0
	case 6: // AVAIL or USED, in a packed ring
		d[flags+rng.IntN(2)] ^= 0x80
	}
}
