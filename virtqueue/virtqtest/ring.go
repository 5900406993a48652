package virtqtest

import (
	"encoding/binary"
)

// Descriptor flags (virtio 1.2, 2.7.5).
const (
	FlagNext     = 1
	FlagWrite    = 2
	FlagIndirect = 4
)

const (
	descBytes   = 16
	availHeader = 4
	availSlot   = 2
	usedHeader  = 4
	usedSlot    = 8
)

// Desc is one descriptor.
type Desc struct {
	Addr  uint64 // guest address
	Len   uint32 // bytes
	Flags uint16
	Next  uint16
}

// Ring is the bare memory of a split ring, field by field: any value can be
// written, sensible or not. Indices and positions run freely modulo 2^16.
type Ring struct {
	size              uint16
	parts             parts
	desc, avail, used []byte
	words             ringWords
}

// newRing lays a ring out in mem, with zeroes. oddAvail puts the available ring
// at an address that is 2 modulo 4, which the specification allows.
func newRing(mem *Memory, size uint16, oddAvail bool) (*Ring, error) {
	skip := uint64(0)
	if oddAvail {
		skip = 2
	}
	p, err := newParts(mem, false, size, skip)
	if err != nil {
		return nil, err
	}
	r := &Ring{size: size, parts: p, desc: p.mem[0], avail: p.mem[1], used: p.mem[2]}
	r.words.init(r.avail, r.used, size)
	return r, nil
}

// Size returns the number of descriptors.
func (r *Ring) Size() uint16 { return r.size }

// Addrs returns the guest addresses of the three parts of the ring.
func (r *Ring) Addrs() (desc, avail, used uint64) {
	return r.parts.addr[0], r.parts.addr[1], r.parts.addr[2]
}

// SetDesc writes descriptor i of the table.
func (r *Ring) SetDesc(i uint16, d Desc) { putDesc(r.desc, i, d) }

// Desc reads descriptor i of the table.
func (r *Ring) Desc(i uint16) Desc {
	b := r.desc[descBytes*int(i):]
	return Desc{
		Addr: binary.LittleEndian.Uint64(b), Len: binary.LittleEndian.Uint32(b[8:]),
		Flags: binary.LittleEndian.Uint16(b[12:]), Next: binary.LittleEndian.Uint16(b[14:]),
	}
}

func putDesc(table []byte, i uint16, d Desc) {
	b := table[descBytes*int(i):][:descBytes]
	binary.LittleEndian.PutUint64(b, d.Addr)
	binary.LittleEndian.PutUint64(b[8:], uint64(d.Len)|uint64(d.Flags)<<32|uint64(d.Next)<<48)
}

// SetAvailSlot writes the head of the chain at position pos of the available
// ring.
func (r *Ring) SetAvailSlot(pos, head uint16) {
	binary.LittleEndian.PutUint16(r.avail[availHeader+availSlot*int(pos&(r.size-1)):], head)
}

// SetAvail writes flags and index of the available ring; the device that sees
// the index sees all that was written before.
func (r *Ring) SetAvail(flags, idx uint16) { r.words.setAvail(flags, idx) }

// SetUsedEvent writes the index at which the driver wants to be called.
func (r *Ring) SetUsedEvent(idx uint16) { r.words.setUsedEvent(idx) }

// Used reads flags and index of the used ring; all that the device wrote before
// is visible after.
func (r *Ring) Used() (flags, idx uint16) { return r.words.usedWord() }

// SetUsedIdx writes the index of the used ring, which is the device's. It makes
// a ring that has been in use.
func (r *Ring) SetUsedIdx(idx uint16) { r.words.setUsedIdx(idx) }

// UsedElem reads the used element at position pos: the head of a chain, and how
// many bytes the device wrote to it.
func (r *Ring) UsedElem(pos uint16) (head, lenBytes uint32) {
	e := binary.LittleEndian.Uint64(r.used[usedHeader+usedSlot*int(pos&(r.size-1)):])
	return uint32(e), uint32(e >> 32)
}

// AvailEvent reads the index at which the device wants to be kicked.
func (r *Ring) AvailEvent() uint16 { return r.words.availEventIdx() }
