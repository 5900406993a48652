package netstack

import (
	"hash/maphash"
	"sync"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
)

// directory says which worker has which flow, where there are several. It is
// asked when a worker does not know a flow, and written when flows begin, move
// and end; frames of flows that are where they should be never come here. It
// holds hashes only: that two of its flows have the same one is less likely than
// an error of the memory that they are in.
type directory struct {
	seed   maphash.Seed
	shards [directoryShards]struct {
		mu     sync.Mutex
		owners map[uint64]owner
	}
}

const directoryShards = 64

// owner is a worker that has a flow. A flow that is bound does not move.
type owner struct {
	worker uint8
	bound  bool
}

func newDirectory() *directory {
	d := &directory{seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].owners = map[uint64]owner{}
	}
	return d
}

func (d *directory) hash(k *flowtable.Key) uint64 { return maphash.Comparable(d.seed, *k) }

// claim makes worker the owner of k unless there is one, and returns the owner.
func (d *directory) claim(k *flowtable.Key, worker uint8) owner {
	h := d.hash(k)
	s := &d.shards[h%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.owners[h]
	if !ok {
		o = owner{worker: worker}
		s.owners[h] = o
	}
	return o
}

// find returns the owner of k, if there is one.
func (d *directory) find(k *flowtable.Key) (o owner, ok bool) {
	h := d.hash(k)
	s := &d.shards[h%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok = s.owners[h]
	return o, ok
}

// set makes o the owner of k, whoever was.
func (d *directory) set(k *flowtable.Key, o owner) {
	h := d.hash(k)
	s := &d.shards[h%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[h] = o
}

// drop forgets k if worker is its owner.
func (d *directory) drop(k *flowtable.Key, worker uint8) {
	h := d.hash(k)
	s := &d.shards[h%directoryShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.owners[h]; ok && o.worker == worker {
		delete(s.owners, h)
	}
}

// len returns how many flows have an owner.
func (d *directory) len() (n int) {
	for i := range d.shards {
		s := &d.shards[i]
		s.mu.Lock()
		n += len(s.owners)
		s.mu.Unlock()
	}
	return n
}
