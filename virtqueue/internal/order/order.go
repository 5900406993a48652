// Package order holds the memory barriers and 16-bit accesses that both sides
// of a virtqueue need.
package order

import "sync/atomic"

// Fence makes full memory barriers. The zero Fence is ready; one user at a time.
//
// On amd64 the store is an XCHG, which is a full barrier by itself. On arm64 it
// is a store-release, which waits for everything before it; the load is a
// load-acquire, which waits for the store-release whatever the two addresses
// are, and everything after waits for the load.
//
// On both machines an atomic store followed by an atomic load thus orders the
// store before all that follows the load, so code that has just made an atomic
// store needs only the load.
type Fence struct{ word uint32 }

// Full is a full barrier.
func (f *Fence) Full() {
	atomic.StoreUint32(&f.word, 0)
	atomic.LoadUint32(&f.word)
}

// AfterStore completes the atomic store made just before to a full barrier.
func (f *Fence) AfterStore() { atomic.LoadUint32(&f.word) }

// Load16 reads a field that the other side may write at the same time, without
// any order between the two: for event words and flags, where the protocol
// copes with the old value as well as with the new one. The race detector
// cannot know that and does not see the access.
//
//go:norace
func Load16(p *uint16) uint16 { return *p }

// Store16 is the other end of [Load16].
//
//go:norace
func Store16(p *uint16, v uint16) { *p = v }
