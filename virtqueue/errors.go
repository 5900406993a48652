package virtqueue

import (
	"errors"
	"fmt"
)

// ErrEmpty says that the driver has made no further chain available. It is the
// only error of [Queue.Take] that happens in good order.
var ErrEmpty = errors.New("virtqueue: no chain available")

// ErrBroken is matched by every [BrokenError].
var ErrBroken = errors.New("virtqueue: ring is broken")

// Cause is what the driver did wrong.
type Cause uint8

// The causes. Clauses are those of the virtio 1.2 specification.
const (
	_ Cause = iota
	// CauseAvailJump: the available index moved back (2.7.6.1), or on by more
	// chains than the ring can hold: what the device has not returned is not
	// free to be made available again. Value is the index.
	CauseAvailJump
	// CauseHeadRange: a slot of the available ring names a descriptor beyond
	// the table (2.7.6), or a chain of a packed ring has a buffer ID not below
	// the queue size. Value is the slot or ID. For the latter no clause but the
	// example of 2.8.22 says so; all drivers known keep to it.
	CauseHeadRange
	// CauseHeadInFlight: a chain was made available a second time before the
	// device had returned it (2.7.13), or its buffer ID was (2.8). Value is its
	// head or ID.
	CauseHeadInFlight
	// CauseNextRange: a next field points beyond its table (2.7.5). Value is
	// the field.
	CauseNextRange
	// CauseChainTooLong: a chain has more descriptors than the queue size
	// (2.7.5.3.1); a chain with a loop ends here. Value is the limit.
	CauseChainTooLong
	// CauseChainTooBig: the buffers of one chain are longer than 2^32 bytes
	// together (2.7.5.2). Value is the sum in bytes.
	CauseChainTooBig
	// CauseZeroLength: a buffer of no bytes. Value is its address.
	CauseZeroLength
	// CauseUnmapped: a buffer is not, or not as a whole, in guest memory.
	// Value is its address.
	CauseUnmapped
	// CauseOrder: a device-readable buffer follows a device-writable one
	// (2.7.4.2). Value is the address of the former.
	CauseOrder
	// CauseDirection: more descriptors than the queue's size went by in a row
	// whose chains all had a buffer of the wrong direction. A few are dropped,
	// but the device must not be kept busy with them. Value is their number.
	CauseDirection
	// CauseIndirectFeature: an indirect descriptor though
	// VIRTIO_F_INDIRECT_DESC was not negotiated (2.7.5.3.1). Value is the
	// address of the table.
	CauseIndirectFeature
	// CauseIndirectNext: an indirect descriptor that is not the last of its
	// chain (2.7.5.3.1), or not alone in a packed ring (2.8.19). Value is the
	// address of the table.
	CauseIndirectNext
	// CauseIndirectNested: an indirect descriptor inside an indirect table
	// (2.7.5.3.1). Value is the address of the inner table. In a packed ring
	// the flag means nothing there (2.8.7).
	CauseIndirectNested
	// CauseIndirectLength: the length of an indirect table is 0, no multiple
	// of a descriptor's 16 bytes, or above queue size x 16 (2.7.5.3.1). Value
	// is the length in bytes.
	CauseIndirectLength
	// CauseIndirectUnmapped: an indirect table is not, or not as a whole, in
	// guest memory. Value is its address.
	CauseIndirectUnmapped
	// CauseDescInFlight: in a packed ring, a chain takes descriptors that the
	// device has not returned, or was changed while the device held it
	// (2.8.16). Value is the number of descriptors not returned, or the buffer
	// ID found.
	CauseDescInFlight

	causes
)

var causeText = [causes]string{
	CauseAvailJump:        "available index jumped",
	CauseHeadRange:        "head of a chain beyond the descriptor table",
	CauseHeadInFlight:     "chain made available twice",
	CauseNextRange:        "next descriptor beyond the table",
	CauseChainTooLong:     "chain longer than the queue",
	CauseChainTooBig:      "chain of more than 2^32 bytes",
	CauseZeroLength:       "buffer of zero length",
	CauseUnmapped:         "buffer not in guest memory",
	CauseOrder:            "readable buffer after a writable one",
	CauseDirection:        "too many chains of the wrong direction",
	CauseIndirectFeature:  "indirect descriptor without the feature",
	CauseIndirectNext:     "indirect descriptor with a next one",
	CauseIndirectNested:   "indirect table inside an indirect table",
	CauseIndirectLength:   "bad length of an indirect table",
	CauseIndirectUnmapped: "indirect table not in guest memory",
	CauseDescInFlight:     "descriptor in use again before it was returned",
}

// String describes c in a few words.
func (c Cause) String() string {
	if c < causes && causeText[c] != "" {
		return causeText[c]
	}
	return fmt.Sprintf("cause %d", uint8(c))
}

// BrokenError tells why a ring is broken: its driver broke a rule without
// which the device cannot go on safely. It matches [ErrBroken]. All numbers
// come from the guest; none is guest data.
type BrokenError struct {
	Cause Cause
	// Avail is the position in the available ring, free-running; in a packed
	// ring the slot, and in bit 15 the wrap counter.
	Avail uint16
	Head  uint16 // head of the chain; 0 if no chain was reached, and in a packed ring
	Desc  uint16 // descriptor in its table; 0 if none was reached
	Value uint64 // what was wrong, see the causes
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%v: %v (available index %d, head %d, descriptor %d, value %#x)",
		ErrBroken, e.Cause, e.Avail, e.Head, e.Desc, e.Value)
}

// Unwrap returns [ErrBroken].
func (e *BrokenError) Unwrap() error { return ErrBroken }
