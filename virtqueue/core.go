package virtqueue

import "github.com/vhost-net-go/vhost-net-go/virtqueue/internal/order"

// core is what the device side of a ring of either format has.
type core struct {
	checks
	fence    order.Fence
	eventIdx bool
	inOrder  bool
	// merge: one used element may stand for a batch. Chains that have none of
	// their own count as completely used (virtio 1.2, 2.7.9 and 2.8.8), which
	// says too much about a buffer that was to be written.
	merge   bool
	decided bool // the first decision on calling was made

	dirty *dirty // nil unless written pages are marked

	turns       turns
	outstanding int // chains taken and neither returned nor given back

	// waiting are chains that were dropped without IN_ORDER. They are returned
	// once no chain is held: one before them might be given back, and what is
	// known of it, or in a packed ring its descriptors, would be overwritten
	// by what follows. The last again of them are behind chains that were
	// given back already.
	waiting []usedChain
	again   int

	err      error
	counters Counters
}

// usedChain is a chain to be returned.
type usedChain struct {
	written uint32
	slots   uint32 // in a packed ring, that its used descriptor stands for
	id      uint16
}

func newCore(c *Config) core {
	return core{
		waiting:  make([]usedChain, 0, c.Size),
		checks:   newChecks(c),
		eventIdx: c.EventIdx,
		inOrder:  c.InOrder,
		merge:    c.InOrder && !c.Writable,
		dirty:    newDirty(c),
	}
}

// limit is what out entries hold for a chain that the device has: 1 + the bytes
// that it may write.
func (k *core) limit(c *chain) uint64 {
	if k.wanted == descWrite {
		return 1 + c.bytes
	}
	return 1
}

// ripe returns how many of waiting can be returned now.
func (k *core) ripe() int {
	if k.outstanding > 0 {
		return 0
	}
	return len(k.waiting) - k.again
}

// forget takes the first n out of waiting.
func (k *core) forget(n int) { k.waiting = k.waiting[:copy(k.waiting, k.waiting[n:])] }

// updated counts an update that the driver can see.
func (k *core) updated(call bool) bool {
	k.counters.Batches++
	if call {
		k.counters.Calls++
	}
	return call
}

// checkUntake panics when fewer than n chains are held.
func (k *core) checkUntake(n int) {
	if n < 0 || n > k.outstanding {
		panic("virtqueue: Untake of more chains than are taken")
	}
}

const (
	misusedUntake = "virtqueue: Untake of a chain that was returned"
	misusedReturn = "virtqueue: Return of a chain that is not taken, or with more bytes than it can hold"
)
