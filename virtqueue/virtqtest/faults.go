package virtqtest

import (
	"fmt"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// Fault is one way in which a driver breaks a ring.
type Fault struct {
	Name  string
	Cause virtqueue.Cause // what the device has to find
	// NoIndirect: the fault shows only on a device to which
	// VIRTIO_F_INDIRECT_DESC was not offered.
	NoIndirect bool

	packed bool
	write  func(h *hostile)
}

// Apply breaks the ring of d, in which no chain may be out; writable is the
// direction in which the queue is used. The ring must have at least 4
// descriptors, and d an indirect table of as many entries or more unless the
// fault is about something else. Afterwards d is of no use, but its ring's
// memory can be looked at. The device has not been kicked.
func (f Fault) Apply(d *Driver, writable bool) error {
	h := &hostile{d: d, r: d.ring, size: d.cfg.Size}
	if d.cfg.Packed != f.packed {
		return fmt.Errorf("virtqtest: fault %q is about rings of the other format", f.Name)
	}
	if h.size < 4 || d.free != int(h.size) {
		return fmt.Errorf("virtqtest: fault %q needs an idle ring of 4 descriptors or more", f.Name)
	}
	if writable {
		h.dir = FlagWrite
	}
	const n = 64
	addr, err := d.mem.Alloc(n, descBytes)
	if err != nil {
		return err
	}
	h.good = Desc{Addr: addr, Len: n, Flags: h.dir}
	// An indirect table that is as long as any may be, and one entry more.
	if h.table, err = d.mem.Alloc(descBytes*(uint64(h.size)+1), descBytes); err != nil {
		return err
	}
	h.hole, h.end = d.mem.hole()
	f.write(h)
	d.Publish()
	return nil
}

// hostile is what the faults are written with.
type hostile struct {
	d     *Driver
	r     *Ring // nil if packed
	size  uint16
	dir   uint16 // the WRITE bit as it ought to be
	good  Desc   // a descriptor without fault
	table uint64 // room for an indirect table
	hole  uint64 // an address in no region
	end   uint64 // the last 16 bytes of a region that is followed by nothing
	id    uint16 // of the next chain of a packed ring
}

// hole returns an address behind all regions, and the address of the last 16
// bytes before it.
func (m *Memory) hole() (hole, end uint64) {
	for _, r := range m.regions {
		hole = max(hole, r.GuestAddr+r.Size)
	}
	return hole, hole - descBytes
}

// chain writes ds as one chain, from descriptor 0 on or into the next slots of a
// packed ring, and makes it available.
func (h *hostile) chain(ds ...Desc) {
	if h.r == nil {
		for i, d := range ds {
			if i+1 < len(ds) {
				d.Flags |= FlagNext
			}
			h.put(d)
		}
		h.id++
		return
	}
	for i, d := range ds {
		if i+1 < len(ds) {
			d.Flags |= FlagNext
			d.Next = uint16(i + 1)
		}
		h.r.SetDesc(uint16(i), d)
	}
	h.d.expose(0)
}

// put writes d as it is into the next slot of a packed ring.
func (h *hostile) put(d Desc) {
	h.d.packed.put(PackedDesc{Addr: d.Addr, Len: d.Len, Flags: d.Flags, ID: h.id})
}

// raw writes ds as they are into a split ring and makes descriptor 0 available.
func (h *hostile) raw(ds ...Desc) {
	for i, d := range ds {
		h.r.SetDesc(uint16(i), d)
	}
	h.d.expose(0)
}

// indirect returns a descriptor that names a table of the given entries.
func (h *hostile) indirect(ds ...Desc) Desc {
	t := h.d.mem.Bytes(h.table, descBytes*uint64(len(ds)))
	for i, d := range ds {
		if h.r == nil {
			putPackedDesc(t, uint16(i), PackedDesc{Addr: d.Addr, Len: d.Len, Flags: d.Flags})
		} else {
			putDesc(t, uint16(i), d)
		}
	}
	return Desc{Addr: h.table, Len: uint32(len(t)), Flags: FlagIndirect}
}

func (h *hostile) goodBut(change func(*Desc)) Desc {
	d := h.good
	change(&d)
	return d
}

// linked returns n good descriptors, each with the next one behind it.
func (h *hostile) linked(n uint16) []Desc {
	ds := make([]Desc, n)
	for i := range ds {
		ds[i] = h.good
		if i+1 < len(ds) {
			ds[i].Flags |= FlagNext
			ds[i].Next = uint16(i + 1)
		}
	}
	return ds
}

// Faults returns every way known to break a split ring, each of which breaks
// one rule only.
func Faults() []Fault {
	return slices.Concat(indexFaults(), chainFaults(), indirectFaults(), sharedFaults())
}

// PackedFaults is [Faults] for packed rings.
func PackedFaults() []Fault {
	fs := slices.Concat(packedFaults(), sharedFaults())
	for i := range fs {
		fs[i].packed = true
	}
	return fs
}

// sharedFaults are those of both formats.
func sharedFaults() []Fault { return slices.Concat(orderFaults(), bufferFaults(), tableFaults()) }
