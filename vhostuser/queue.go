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
	size := uint16(r.num)
	cfg := virtqueue.Config{
		Size:     size,
		Mem:      s.mem.gm,
		Writable: r.index%2 == 0,
		EventIdx: s.features&featureEventIdx != 0,
		Indirect: s.features&featureIndirectDesc != 0,
	}
	for _, part := range []struct {
		name  string
		dst   *[]byte
		addr  uint64
		bytes int
	}{
		{"descriptor table", &cfg.Desc, r.addr.Desc, virtqueue.DescBytes(size)},
		{"available ring", &cfg.Avail, r.addr.Avail, virtqueue.AvailBytes(size)},
		{"used ring", &cfg.Used, r.addr.Used, virtqueue.UsedBytes(size)},
	} {
		if *part.dst, err = s.mem.gm.SliceUser(part.addr, uint64(part.bytes)); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if !r.resumes {
		// The frontend's index is a guess when the previous backend was
		// killed (QEMU), and not the right one even otherwise
		// (cloud-hypervisor sends the driver's index). As chains are
		// completed in order, the used index in memory is the truth.
		idx, err := virtqueue.ResumeIndex(cfg.Used)
		if err != nil {
			return nil, err
		}
		r.base = uint32(idx)
	}
	cfg.NextAvail = uint16(r.base)
	return virtqueue.New(cfg)
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
