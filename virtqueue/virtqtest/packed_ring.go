package virtqtest

import (
	"encoding/binary"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// Descriptor flags of packed rings (virtio 1.2, 2.8.1), beside the others.
const (
	FlagAvail = 1 << 7
	FlagUsed  = 1 << 15
)

// Flags of an event suppression area (virtio 1.2, 2.8.10).
const (
	EventEnable  = 0
	EventDisable = 1
	EventDesc    = 2
)

// PackedDesc is one descriptor of a packed ring.
type PackedDesc struct {
	Addr  uint64 // guest address
	Len   uint32 // bytes
	ID    uint16
	Flags uint16
}

// PackedRing is the bare memory of a packed ring, field by field: any value can
// be written, sensible or not.
type PackedRing struct {
	size  uint16
	parts parts
	words packedWords
}

// parts are the three parts of a ring of either format.
type parts struct {
	addr [3]uint64
	mem  [3][]byte
}

// newParts lays a ring out in mem, with zeroes; skip is how many bytes beyond an
// aligned address the second part goes.
func newParts(mem *Memory, packed bool, size uint16, skip uint64) (p parts, err error) {
	for i, part := range virtqueue.Layout(packed, size) {
		off := uint64(0)
		if i == 1 {
			off = skip
		}
		// Cache lines of their own, as Linux lays rings out.
		addr, err := mem.Alloc(off+uint64(part.Bytes), 64)
		if err != nil {
			return p, fmt.Errorf("ring of %d descriptors: %w", size, err)
		}
		p.addr[i] = addr + off
		p.mem[i] = mem.Bytes(p.addr[i], uint64(part.Bytes))
	}
	return p, nil
}

func newPackedRing(mem *Memory, size uint16) (*PackedRing, error) {
	p, err := newParts(mem, true, size, 0)
	if err != nil {
		return nil, err
	}
	r := &PackedRing{size: size, parts: p}
	r.words.init(p.mem[0], p.mem[1], p.mem[2])
	return r, nil
}

// Size returns the number of descriptors.
func (r *PackedRing) Size() uint16 { return r.size }

// SetDesc writes the descriptor in slot, without regard to a device that polls
// it.
func (r *PackedRing) SetDesc(slot uint16, d PackedDesc) { putPackedDesc(r.parts.mem[0], slot, d) }

// Desc reads the descriptor in slot.
func (r *PackedRing) Desc(slot uint16) PackedDesc {
	b := r.parts.mem[0][descBytes*int(slot):]
	return PackedDesc{
		Addr: binary.LittleEndian.Uint64(b), Len: binary.LittleEndian.Uint32(b[8:]),
		ID: binary.LittleEndian.Uint16(b[12:]), Flags: binary.LittleEndian.Uint16(b[14:]),
	}
}

func putPackedDesc(table []byte, slot uint16, d PackedDesc) {
	b := table[descBytes*int(slot):][:descBytes]
	binary.LittleEndian.PutUint64(b, d.Addr)
	binary.LittleEndian.PutUint64(b[8:], uint64(d.Len)|uint64(d.ID)<<32|uint64(d.Flags)<<48)
}

// Show writes d so that a device that sees its flags sees all that was written
// before.
func (r *PackedRing) Show(slot uint16, d PackedDesc) {
	b := r.parts.mem[0][descBytes*int(slot):][:descBytes]
	binary.LittleEndian.PutUint64(b, d.Addr)
	binary.LittleEndian.PutUint32(b[8:], d.Len)
	r.words.setMark(slot, d.ID, d.Flags)
}

// Mark reads ID and flags of the descriptor in slot; all that the device wrote
// before is visible after.
func (r *PackedRing) Mark(slot uint16) (id, flags uint16) { return r.words.mark(slot) }

// SetDriverEvent writes where (slot, and wrap counter in bit 15) and whether the
// driver wants to be called.
func (r *PackedRing) SetDriverEvent(at, flags uint16) { r.words.setDriverEvent(at, flags) }

// DeviceEvent reads where and whether the device wants to be kicked.
func (r *PackedRing) DeviceEvent() (at, flags uint16) { return r.words.deviceEventWord() }
