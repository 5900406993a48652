package gvguest

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Ring is one virtqueue as its driver has it. KickFD is signalled by the
// driver, CallFD by the device.
type Ring struct {
	*virtqtest.Driver
	KickFD, CallFD int
}

// Call signals the driver: the Caller of a device in the same process.
func (r *Ring) Call() { signal(r.CallFD) }

// Rings are the two virtqueues of a network device and the memory they lie in.
type Rings struct {
	Mem    *virtqtest.Memory
	Rx, Tx *Ring
	own    []int // descriptors to close
}

// NewRings makes rings in Go memory, where the race detector sees both sides.
func NewRings(memBytes uint64, rx, tx virtqtest.Config) (*Rings, error) {
	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(1<<20, memBytes))
	if err != nil {
		return nil, err
	}
	r := &Rings{Mem: mem}
	for _, q := range []struct {
		dst **Ring
		cfg virtqtest.Config
	}{{&r.Rx, rx}, {&r.Tx, tx}} {
		d, err := virtqtest.NewDriver(mem, q.cfg)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		ring := &Ring{Driver: d}
		for _, fd := range []*int{&ring.KickFD, &ring.CallFD} {
			if *fd, err = eventfd(); err != nil {
				return nil, errors.Join(err, r.Close())
			}
			r.own = append(r.own, *fd)
		}
		*q.dst = ring
	}
	return r, nil
}

// RingsOf returns the rings of a guest of package vutest, whose they stay.
func RingsOf(g *vutest.Guest) *Rings {
	ring := func(i int) *Ring {
		q := g.Queues[i]
		return &Ring{Driver: q.Driver, KickFD: q.KickFD, CallFD: q.CallFD}
	}
	return &Rings{Mem: g.Memory.Memory, Rx: ring(0), Tx: ring(1)}
}

// Close closes the descriptors. Nobody may use the rings any more.
func (r *Rings) Close() error {
	var errs []error
	for _, fd := range r.own {
		errs = append(errs, unix.Close(fd))
	}
	r.own = nil
	return errors.Join(errs...)
}

func eventfd() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("create eventfd: %w", err)
	}
	return fd, nil
}

// signal adds one to an eventfd.
func signal(fd int) { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// drain takes all signals from an eventfd.
func drain(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
}
