package vhostuser

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// newQueue finds the ring in guest memory and makes the device's side of it.
func (s *session) newQueue(r *ring) (q *virtqueue.Queue, err error) {
	defer catchFault(&err)()
	cfg := virtqueue.Config{
		Packed:   s.features&featureRingPacked != 0,
		Size:     uint16(r.num),
		Mem:      s.mem.gm,
		Writable: r.index%2 == 0,
		EventIdx: s.features&featureEventIdx != 0,
		Indirect: s.features&featureIndirectDesc != 0,
		InOrder:  s.features&featureInOrder != 0,
	}
	if err := virtqueue.CheckSize(cfg.Packed, r.num); err != nil {
		return nil, err
	}
	// In a packed ring the event suppression areas of driver and device take
	// the addresses of available and used ring.
	addrs := [...]uint64{r.addr.Desc, r.addr.Avail, r.addr.Used}
	parts := [...]*[]byte{&cfg.Desc, &cfg.Avail, &cfg.Used}
	for i, part := range virtqueue.Layout(cfg.Packed, cfg.Size) {
		if *parts[i], err = s.mem.gm.SliceUser(addrs[i], uint64(part.Bytes)); err != nil {
			return nil, fmt.Errorf("%s: %w", part.Name, err)
		}
	}
	if cfg.Logging, err = s.logging(r, &cfg); err != nil {
		return nil, err
	}
	if !r.resumes {
		if err := s.resume(r, cfg); err != nil {
			return nil, err
		}
	}
	cfg.NextAvail = r.base
	return virtqueue.New(cfg)
}

// resume finds out where a ring goes on that this connection has not run before.
//
// The frontend's number is a guess when the previous backend was killed, and not
// the right one even otherwise (cloud-hypervisor sends the driver's index; UML
// sends 0, with which no packed ring starts; QEMU reads no index from a packed
// ring: it repeats what the last orderly stop has told it). As chains are
// completed in order, the memory of the ring is the truth, see virtqueue.Resume.
// Only where that makes no sense there is nothing but the number to go by.
func (s *session) resume(r *ring, cfg virtqueue.Config) error {
	base, err := virtqueue.Resume(cfg)
	if err == nil {
		r.base = base
		return nil
	}
	if !cfg.Packed {
		return err
	}
	told := r.base
	s.afterPark(func() {
		s.log.warn("ring goes on where the frontend says", "ring", r.index, "base", told, "reason", err)
	})
	return nil
}

// catchFault makes an access to memory that is mapped but not there (the
// frontend has cut its file short, or huge pages ran out) an error instead of
// the end of the process:
//
//	defer catchFault(&err)()
func catchFault(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		switch f := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // runtime.Error of a memory fault
			*err = errors.New("guest memory cannot be accessed: its file was cut short")
		default:
			panic(f)
		}
	}
}
