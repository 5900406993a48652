package virtqueue_test

import (
	"slices"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// packedDesc writes descriptor i of the ring, whoever it belongs to afterwards,
// or of the indirect table behind it.
func (x *fuzzRing) packedDesc(i int, d virtqtest.Desc) {
	p := virtqtest.PackedDesc{Addr: d.Addr, Len: d.Len, ID: d.Next, Flags: d.Flags}
	if i < int(x.cfg.Size) {
		p.Flags |= x.drv.Packed().Desc(uint16(i)).Flags & (virtqtest.FlagAvail | virtqtest.FlagUsed)
		x.drv.Packed().SetDesc(uint16(i), p)
		return
	}
	b := x.drv.Memory().Bytes(x.table+uint64(16*(i-int(x.cfg.Size))), 16)
	for k := range 8 {
		b[k] = byte(p.Addr >> (8 * k))
		b[8+k] = byte((uint64(p.Len) | uint64(p.ID)<<32 | uint64(p.Flags)<<48) >> (8 * k))
	}
}

// packedMark makes the descriptor in slot available in a lap with the given wrap
// counter.
func (x *fuzzRing) packedMark(slot uint16, wrap bool) {
	d := x.drv.Packed().Desc(slot)
	d.Flags &^= virtqtest.FlagAvail | virtqtest.FlagUsed
	if wrap {
		d.Flags |= virtqtest.FlagAvail
	} else {
		d.Flags |= virtqtest.FlagUsed
	}
	x.drv.Packed().Show(slot, d)
}

// packedAvail makes the next descriptor of the ring available.
func (x *fuzzRing) packedAvail() {
	slot := x.place &^ (1 << 15)
	x.packedMark(slot, x.place>>15 == 1)
	if x.place++; slot+1 == x.cfg.Size {
		x.place = x.place&(1<<15) ^ 1<<15
	}
}

// packedPublish checks that the first used descriptor is where the device says
// that it was, and that nothing is written but used descriptors, up to where it
// says that it is now.
func (x *fuzzRing) packedPublish() {
	ring, size := x.drv.Packed(), x.cfg.Size
	snapshot := func() (ds []virtqtest.PackedDesc) {
		for i := range size {
			ds = append(ds, ring.Desc(i))
		}
		return ds
	}
	before, batches := snapshot(), x.q.Counters().Batches
	call := x.q.Publish()
	after, end := snapshot(), uint16(x.q.State())
	if x.q.Counters().Batches == batches {
		if call || !slices.Equal(before, after) || x.at != end {
			x.t.Fatal("something was written though nothing was published")
		}
		return
	}
	for at := x.at; ; {
		slot, wrap := at&^(1<<15), at>>15
		d := after[slot]
		owner := d.Flags & (virtqtest.FlagAvail | virtqtest.FlagUsed)
		used := owner == (virtqtest.FlagAvail|virtqtest.FlagUsed)*wrap
		if at == x.at && !used {
			x.t.Fatalf("first used descriptor has flags %#x", d.Flags)
		}
		if d != before[slot] && (!used || d.Addr != before[slot].Addr || d.ID >= size) {
			x.t.Fatalf("slot %d: %+v became %+v", slot, before[slot], d)
		}
		before[slot] = d
		if at++; slot+1 == size {
			at = at&(1<<15) ^ 1<<15
		}
		if at == end || at&^(1<<15) == x.at&^(1<<15) {
			break
		}
	}
	if !slices.Equal(before, after) {
		x.t.Fatal("written beyond what was published")
	}
	x.at, x.expect = end, nil
}
