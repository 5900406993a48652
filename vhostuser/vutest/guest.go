package vutest

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Guest is a virtual machine with one virtio device: memory, and the driver's
// side of the device's queues. It knows nothing about connections.
type Guest struct {
	Memory *Memory
	Queues []*Queue
}

// NewGuest lays n queues of the same kind out in mem, which stays the caller's.
func NewGuest(mem *Memory, n int, cfg virtqtest.Config) (*Guest, error) {
	g := &Guest{Memory: mem}
	for i := range n {
		q, err := newQueue(mem, i, cfg)
		if err != nil {
			g.Close()
			return nil, fmt.Errorf("vutest: queue %d: %w", i, err)
		}
		g.Queues = append(g.Queues, q)
	}
	return g, nil
}

// Close closes the queues' descriptors.
func (g *Guest) Close() error {
	var errs []error
	for _, q := range g.Queues {
		errs = append(errs, q.close())
	}
	g.Queues = nil
	return errors.Join(errs...)
}

// Queue is one virtqueue as its driver has it, with the eventfds that signal
// it. The frontend hands these to the backend.
type Queue struct {
	*virtqtest.Driver
	Index int
	// KickFD is signalled by the driver, CallFD and ErrFD by the device. All
	// are nonblocking.
	KickFD, CallFD, ErrFD int
	// Base is the available index that the next start tells the backend, and
	// that the last stop has learned from it. For a packed ring it is coded as
	// in virtqueue.Config.NextAvail.
	Base uint32
	// Logged asks for the device's writes to the ring to be logged, see
	// Frontend.StartLog.
	Logged bool
	// Off keeps the frontend from enabling the queue.
	Off bool
}

func newQueue(mem *Memory, index int, cfg virtqtest.Config) (*Queue, error) {
	d, err := virtqtest.NewDriver(mem.Memory, cfg)
	if err != nil {
		return nil, err
	}
	q := &Queue{Driver: d, Index: index, KickFD: -1, CallFD: -1, ErrFD: -1, Base: d.QueueConfig(false).NextAvail}
	for _, p := range []*int{&q.KickFD, &q.CallFD, &q.ErrFD} {
		if *p, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return nil, errors.Join(fmt.Errorf("create eventfd: %w", err), q.close())
		}
	}
	return q, nil
}

func (q *Queue) close() error {
	var errs []error
	for _, p := range []*int{&q.KickFD, &q.CallFD, &q.ErrFD} {
		if *p >= 0 {
			errs = append(errs, unix.Close(*p))
			*p = -1
		}
	}
	return errors.Join(errs...)
}

// Addr returns where the ring lies, as the backend is told.
func (q *Queue) Addr() wire.VringAddr {
	desc, avail, used := q.Addrs()
	a := wire.VringAddr{Index: uint32(q.Index), Log: ^uint64(0)}
	for _, p := range []struct {
		dst   *uint64
		guest uint64
	}{{&a.Desc, desc}, {&a.Avail, avail}, {&a.Used, used}} {
		*p.dst = p.guest + userOffset
	}
	if q.Logged {
		a.Flags, a.Log = wire.VringLog, used
	}
	return a
}

// Kick publishes the chains added so far and kicks the device if it asked for
// that.
func (q *Queue) Kick() error {
	if !q.Driver.Kick() {
		return nil
	}
	return q.ForceKick()
}

// ForceKick kicks the device whether it asked or not.
func (q *Queue) ForceKick() error {
	_, err := unix.Write(q.KickFD, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("kick queue %d: %w", q.Index, err)
	}
	return nil
}

// WaitCall waits until the device calls, and takes the call. It reports false
// after timeout.
func (q *Queue) WaitCall(timeout time.Duration) bool { return wait(q.CallFD, timeout) }

// WaitErr waits until the device signals that the queue is broken.
func (q *Queue) WaitErr(timeout time.Duration) bool { return wait(q.ErrFD, timeout) }

// WaitUsed waits until the device has returned a chain, looking at calls and,
// for devices that rightly did not call, once more at the end.
func (q *Queue) WaitUsed(timeout time.Duration) (virtqtest.Used, error) {
	end := time.Now().Add(timeout)
	for {
		u, ok, err := q.Reap()
		if ok || err != nil {
			return u, err
		}
		left := time.Until(end)
		if left <= 0 {
			return u, fmt.Errorf("queue %d: no chain came back within %v", q.Index, timeout)
		}
		if !q.EnableCalls() {
			q.WaitCall(left)
		}
	}
}

// wait takes a signal from an eventfd.
func wait(fd int, timeout time.Duration) bool {
	end := time.Now().Add(timeout)
	var b [8]byte
	for {
		if n, err := unix.Read(fd, b[:]); err == nil && n == len(b) {
			return true
		}
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}
