package netstack

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// RxRing is what a worker needs of the ring towards the guest.
type RxRing = framequeue.Ring

// Caller tells the driver to look at its ring. It never blocks.
type Caller = framequeue.Caller

// TxRing is what a worker needs of the ring on which the guest transmits. A
// virtqueue.Queue whose driver gives buffers to read is one.
type TxRing interface {
	// Take appends the vectors of the next frame to dst. virtqueue.ErrEmpty
	// says that there is none; any other error, that the ring is broken.
	Take(dst []iov.Vec) (vecs []iov.Vec, token uint32, err error)
	// Return stages a buffer that is done with.
	Return(token uint32, writtenBytes uint32)
	// Publish makes the staged buffers visible; it says whether to call.
	Publish() (call bool)
	// SuppressKicks tells the driver that kicks are not needed.
	SuppressKicks()
	// ArmKicks asks for a kick at the next frame; true if there are some.
	ArmKicks() (more bool)
}
