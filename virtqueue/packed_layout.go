package virtqueue

import "fmt"

// The layout of a packed ring, virtio 1.2, 2.8.13 and 2.8.14; all fields are
// little-endian.
//
//	descriptor          le64 addr, le32 len, le16 id, le16 flags
//	event suppression   le16 slot and wrap counter, le16 flags
const (
	// Where id and flags are in the second half of a descriptor. The length,
	// and the flags of 2.7.5, are those of a split ring.
	packedIDShift    = 32
	packedFlagsShift = 48

	// Descriptor flags that tell whose it is, 2.8.1.
	descAvail = 1 << 7
	descUsed  = 1 << 15

	eventAreaBytes = 2 + 2
	eventAreaAlign = 4

	// wrapCounter is where a wrap counter stands beside a slot, in event
	// suppression areas and in vhost-user's ring base.
	wrapCounter = 1 << 15

	// Flags of an event suppression area, 2.8.10. 3 is reserved.
	eventEnable  = 0
	eventDisable = 1
	eventDesc    = 2 // when the descriptor is reached; with EVENT_IDX only
	eventMask    = 3
)

// place is where one side is in a packed ring.
type place struct {
	slot uint32
	// lap has the flags AVAIL and USED as the driver sets them on a descriptor
	// that it makes available in this lap: AVAIL while the wrap counter is 1,
	// USED while it is 0.
	lap uint16
}

// forward returns the place that is n slots further, 0 <= n <= size.
func (p place) forward(n, size uint32) place {
	p.slot += n
	if p.slot >= size {
		p.slot -= size
		p.lap ^= descAvail | descUsed
	}
	return p
}

// back returns the place n slots before, 0 <= n <= size.
func (p place) back(n, size uint32) place {
	if p.slot < n {
		p.slot += size
		p.lap ^= descAvail | descUsed
	}
	p.slot -= n
	return p
}

// used returns AVAIL and USED as the device sets them in this lap.
func (p place) used() uint16 {
	if p.lap == descAvail {
		return descAvail | descUsed
	}
	return 0
}

// code returns slot and wrap counter as they are written down.
func (p place) code() uint16 {
	if p.lap == descAvail {
		return uint16(p.slot) | wrapCounter
	}
	return uint16(p.slot)
}

func placeOf(code uint16) place {
	p := place{slot: uint32(code &^ wrapCounter), lap: descUsed}
	if code&wrapCounter != 0 {
		p.lap = descAvail
	}
	return p
}

// base returns the coding of vhost-user's ring base for a device that has
// returned all that it took.
func (p place) base() uint32 { return uint32(p.code())<<16 | uint32(p.code()) }

// resumePlace returns where a device goes on in a ring of that size, see
// [Config].NextAvail.
func resumePlace(base uint32, size uint16) (place, error) {
	p := placeOf(uint16(base))
	if used := uint16(base >> 16); used != 0 {
		p = placeOf(used)
	}
	if p.slot >= uint32(size) || uint16(base)&^wrapCounter >= size {
		return p, fmt.Errorf("virtqueue: state %#x is beyond a packed ring of %d descriptors", base, size)
	}
	return p, nil
}
