package virtqueue

import "sync/atomic"

// fence is a full memory barrier. On amd64 the store is an XCHG, which is one
// by itself. On arm64 it is a store-release, which waits for everything before
// it; the load is a load-acquire, which waits for the store-release whatever
// the two addresses are, and everything after waits for the load.
//
// On both machines an atomic store followed by an atomic load orders the store
// before all that follows the load, so code that has just stored one of the
// atomic words needs the load only.
type fence struct{ word uint32 }

func (f *fence) full() {
	atomic.StoreUint32(&f.word, 0)
	atomic.LoadUint32(&f.word)
}

// afterStore completes an atomic store made just before to a full barrier.
func (f *fence) afterStore() { atomic.LoadUint32(&f.word) }

// load16 and store16 access an event word or the flags of the available ring,
// which the other side accesses at the same time, without order among the two:
// the protocol copes with either value as long as the barriers around them are
// in place. The race detector cannot know that.
//
//go:norace
func load16(p *uint16) uint16 { return *p }

//go:norace
func store16(p *uint16, v uint16) { *p = v }
