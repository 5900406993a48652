// Package virtqueue is the device side of virtio queues in memory that is
// shared with a guest. It knows nothing of what the buffers hold.
//
// # The life of one buffer
//
// The driver in the guest owns a table of descriptors, each an address, a
// length and a direction, that can be linked to chains. One chain is one
// buffer for the device to read (what the guest transmits) or to fill (what it
// receives). Taking a transmitted frame as an example:
//
//  1. The driver writes descriptors and puts the number of the first, the head,
//     into the next slot of the available ring. Then it moves the available
//     index on, and kicks the device if the device asked for that.
//  2. [Queue.Take] sees the index, reads slot and descriptors, each once,
//     checks them and hands out the chain as vectors into guest memory, ready
//     for sendmsg, with a token. The device now holds the chain.
//  3. The device reads the bytes where they are. They remain the guest's, which
//     may change them meanwhile: whatever is decided on is copied before.
//  4. [Queue.Return] writes head and length into the next slot of the used ring.
//     The driver does not look at it yet. A device that cannot use what it took
//     last says [Queue.Untake] instead.
//  5. [Queue.Publish] moves the used index over all that was returned since the
//     last time, with one store, and says whether the driver wants a call.
//  6. The driver sees the index, takes the buffer back and uses it again.
//
// That is a split ring. In a packed ring ([Config].Packed) there is one ring of
// descriptors only: the driver marks the first one of a chain as available, and
// the device overwrites it as used, or, when chains are returned in another
// order, one that was there before. What has been said of heads and slots is true
// of buffer IDs and descriptors, and Queue does the same for its user.
//
// With VIRTIO_F_IN_ORDER ([Config].InOrder) chains go back in the order in which
// they came. A user may still return them in any order; they wait in the queue.
// For those that were only read, one used element stands for all that are
// published together.
//
// The example of [Queue] is a worker's turn on a transmit queue. A receive queue
// is used the same way, with the direction reversed: the device takes buffers,
// fills them, and returns each with the number of bytes that it wrote.
//
// # Trust
//
// The driver is not trusted. Three results are kept apart: a chain; nothing
// there ([ErrEmpty]); a ring that breaks a rule ([ErrBroken], with a [Cause]).
// Nothing more is taken from a broken ring, and the process is none the worse.
// Whatever the driver writes, and whenever, the vectors lie in guest memory, no
// chain is longer than the queue, and no loop goes on for ever: a Take looks at
// no more than the queue's size of chains, each with as many descriptors. How
// many chains a worker takes before it turns to something else is its own
// affair.
//
// # Memory order
//
// The indices are read and written so that what one side wrote before it moved
// an index is visible to the other side that sees it, on amd64 and on arm64.
// internal/order and words_unsafe.go say how. Rings are little-endian, and so
// must the machine be.
package virtqueue
