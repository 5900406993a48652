// Package virtqtest plays the driver of a virtqueue: what the virtio driver in
// a guest's kernel does, over memory that the device maps as well. It tests
// devices, and it is fast enough to load them: nothing allocates per chain.
//
//	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0x10000, 1<<20))
//	drv, err := virtqtest.NewDriver(mem, virtqtest.Config{Size: 256, EventIdx: true, Indirect: true})
//	dev, err := virtqueue.New(drv.QueueConfig(false)) // or another process
//
//	addr, err := mem.Alloc(1514, 64)
//	copy(mem.Bytes(addr, 1514), frame)
//	head, err := drv.Add([]virtqtest.Buffer{{Addr: addr, Len: 1514}}, nil)
//	if drv.Kick() { … }                     // the device wants to know
//	used, ok, err := drv.Reap()             // used.Head == head when it is done
//
// [Driver] keeps the rules, of split and of packed rings. [Ring] or [PackedRing],
// one of which every driver has, is the bare memory: any value can be written into
// any field. [Faults] and [PackedFaults] list the ways in which a hostile driver
// breaks a ring, ready to be applied, and [Ring.Scribble] changes descriptors
// while the device reads them.
//
// With [HeapRegion] the race detector sees both sides and checks that each
// access to ring and buffers is ordered by the ring's indices. The accesses that
// the protocol leaves unordered (event words, flags, Scribble) are hidden from
// it, and so is an available ring at an odd address ([Config].OddAvail), whose
// index Go cannot store atomically.
package virtqtest
