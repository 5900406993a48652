package virtqueue

import "math/bits"

// turns remembers the chains in the order in which they were taken, each at a
// position that runs freely modulo 2^16. Where VIRTIO_F_IN_ORDER was negotiated,
// what is returned too early waits here for its turn: then the driver gets no
// descriptor back that was taken after first, so the list has room for all.
type turns struct {
	list  []turn // by position, modulo its length, a power of two
	first uint16 // the oldest position that was not passed on; with IN_ORDER only
}

// turn is one chain.
type turn struct {
	id      uint16 // head, or buffer ID of a packed ring
	slots   uint16 // descriptors that it takes in a packed ring
	written uint32
	state   turnState
}

type turnState uint8

const (
	turnHeld turnState = iota // with the device
	turnReturned
	turnDropped
)

func newTurns(size uint16, first uint16) turns {
	return turns{list: make([]turn, 1<<bits.Len16(size-1)), first: first}
}

func (t *turns) at(pos uint16) *turn { return &t.list[int(pos)&(len(t.list)-1)] }

// due passes the oldest chain on if it is not with the device any more; nil: it
// is, or there is none. end is the position behind the last chain taken.
func (t *turns) due(end uint16) *turn {
	if t.first == end {
		return nil
	}
	e := t.at(t.first)
	if e.state == turnHeld {
		return nil
	}
	t.first++
	return e
}
