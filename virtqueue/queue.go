package virtqueue

import "github.com/vhost-net-go/vhost-net-go/virtqueue/iov"

// Queue is the device side of one virtqueue. It has one user at a time and no
// locks; the driver works on the other side of the shared memory at the same
// time.
//
// The methods are the same for rings of either format.
type Queue struct {
	ring splitRing // or what stands in for it, see there
}

// Counters count what has gone through a queue since it was made. They are
// plain numbers, to be read by the user of the queue.
type Counters struct {
	Chains  uint64 // taken, without those given back by Untake
	Dropped uint64 // chains of the wrong direction, returned unused
	Batches uint64 // updates of the used index
	Calls   uint64 // batches for which the driver wanted a call
}

// New makes the device side of the ring that c describes. It changes nothing in
// the guest's memory. The driver may have been told by a predecessor not to
// kick, so a user that waits for kicks calls [Queue.ArmKicks] first.
func New(c Config) (*Queue, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Packed {
		return &Queue{ring: splitRing{packed: newPackedRing(&c)}}, nil
	}
	return &Queue{ring: newSplitRing(&c)}, nil
}

// Take takes the next available chain. It appends the chain's buffers to dst,
// in order, as one vector per descriptor, or more where a buffer runs over the
// border of two memory regions: at most a few more than the queue's size. They
// point into guest memory and may be used until the chain is returned. token
// stands for the chain in [Queue.Return].
//
// The error is [ErrEmpty] when the driver has made no more chains available, or
// a [BrokenError], which matches [ErrBroken]: then the ring is broken, stays so,
// and every later Take returns the same error. dst comes back unchanged with an
// error.
//
// A chain with a buffer of the wrong direction for this queue is dropped and
// counted, and the next one is taken. It goes back to the driver with length 0
// when Publish finds that no chain is held, with IN_ORDER in its turn.
func (q *Queue) Take(dst []iov.Vec) (vecs []iov.Vec, token uint32, err error) {
	return q.ring.take(dst)
}

// Untake gives the last n chains taken back to the ring, as if they had never
// been taken; they come first in later Takes. None of them may have been
// returned. It panics when fewer are held.
func (q *Queue) Untake(n int) { q.ring.untake(n) }

// Return ends the use of a chain. writtenBytes is how many bytes were written
// from the start of it: at most its length, and 0 in a queue whose buffers are
// read. The driver sees nothing of it before [Queue.Publish]. Chains may be
// returned in any order.
//
// It panics when token is not that of a chain held, or when writtenBytes is more
// than the chain can hold: only the user of the queue can do that wrong.
func (q *Queue) Return(token, writtenBytes uint32) { q.ring.giveBack(token, writtenBytes) }

// Publish makes all chains returned since the last Publish visible to the
// driver, all at once. It reports whether the driver wants to be called for
// them. With none it does nothing and returns false.
func (q *Queue) Publish() (call bool) { return q.ring.publish() }

// SuppressKicks tells the driver that it need not kick, because the device is
// going to look by itself. It is a hint: a kick may come all the same.
func (q *Queue) SuppressKicks() { q.ring.suppressKicks() }

// ArmKicks asks the driver for a kick at the next chain that it makes available
// after those that are available now. It reports whether any are: then the
// device must take them without waiting for a kick. A device that needs more
// than are there compares [Queue.Pending] with its need, and may wait: the kick
// will come when there are more.
//
// It returns true if it finds that the driver has broken the ring, so that the
// next Take can tell, and false on a ring that was broken before.
func (q *Queue) ArmKicks() (more bool) { return q.ring.armKicks() }

// Pending looks how many chains are available now. Chains that Take will drop
// are counted. It is 0 on a broken ring.
func (q *Queue) Pending() int { return q.ring.pending() }

// Known returns how many of them the last look found, without looking anew: what
// the driver has added since is not among them. A Take that finds nothing has
// looked.
func (q *Queue) Known() int { return q.ring.known() }

// Outstanding returns the number of chains taken and neither returned nor given
// back.
func (q *Queue) Outstanding() int { return q.core().outstanding }

// Size returns the number of descriptors of the ring.
func (q *Queue) Size() int { return int(q.core().size) }

// State returns where a successor goes on: what [Config].NextAvail takes, in the
// coding of vhost-user's GET_VRING_BASE. Chains that are still held count as not
// taken. This is exact if chains were returned in the order in which they were
// taken, and with IN_ORDER; otherwise return or untake all of them first (see
// [Queue.Outstanding]). What was returned must be published.
func (q *Queue) State() uint32 { return q.ring.state() }

// Err returns the [BrokenError] of a broken ring, else nil.
func (q *Queue) Err() error { return q.core().err }

// Counters returns a copy of the counters.
func (q *Queue) Counters() Counters { return q.core().counters }

func (q *Queue) core() *core {
	if q.ring.packed != nil {
		return &q.ring.packed.core
	}
	return &q.ring.core
}
