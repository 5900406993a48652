// Package poller waits for descriptors with epoll. Every registration is
// edge-triggered and lasts until its descriptor is closed: one epoll_ctl in a
// socket's life.
package poller

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Readiness of a descriptor, a set of the bits below.
type Readiness uint32

// The readiness bits (epoll_ctl(2)).
const (
	Readable  Readiness = unix.EPOLLIN
	Writable  Readiness = unix.EPOLLOUT
	PeerEnded Readiness = unix.EPOLLRDHUP // the peer sends no more
	Urgent    Readiness = unix.EPOLLPRI   // urgent data of TCP came
	HungUp    Readiness = unix.EPOLLHUP   // both directions are over
	Failed    Readiness = unix.EPOLLERR
)

const maxEvents = 256

// Poller waits for readiness. All but Wake belongs to one goroutine, which need
// not be locked to a thread, and better is not: each park would cost a change of
// threads.
type Poller struct {
	epollFd int
	wakeFd  int
	events  [maxEvents]unix.EpollEvent
	// idle says that nothing came for a while: the next Wait parks.
	idle    bool
	parking parking
}

// busyMs is how long a Wait after an event blocks in a raw system call, which the
// Go scheduler does not know of: an event is then one call, and no other thread
// is woken for it. It keeps one processor from other goroutines, so it is done
// only while events come in quick succession. (A garbage collection that has to
// stop the world interrupts the call.)
const busyMs = 5

// wakeToken marks the poller's own wake-up descriptor.
const wakeToken = ^uint64(0)

// New opens a poller.
func New() (*Poller, error) {
	p := &Poller{epollFd: -1, wakeFd: -1}
	var err error
	if p.epollFd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	if p.wakeFd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		p.Close()
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	if err := p.Add(p.wakeFd, wakeToken, Readable); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.openParking(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the poller's own descriptors.
func (p *Poller) Close() {
	p.closeParking()
	for _, fd := range []int{p.epollFd, p.wakeFd} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	p.epollFd, p.wakeFd = -1, -1
}

// Add registers fd for want; token comes back with its events. Errors and
// hang-ups are always reported. ^uint64(0) is not a valid token.
func (p *Poller) Add(fd int, token uint64, want Readiness) error {
	if err := p.ctl(unix.EPOLL_CTL_ADD, fd, token, want); err != nil {
		return fmt.Errorf("add descriptor %d to epoll: %w", fd, err)
	}
	return nil
}

// Rearm makes the kernel look at fd anew: a state that holds already is
// reported again, one that comes later is an edge.
func (p *Poller) Rearm(fd int, token uint64, want Readiness) error {
	if err := p.ctl(unix.EPOLL_CTL_MOD, fd, token, want); err != nil {
		return fmt.Errorf("rearm descriptor %d in epoll: %w", fd, err)
	}
	return nil
}

// Remove takes fd out. It is only needed where the descriptor, or another one
// for the same open file, stays open.
func (p *Poller) Remove(fd int) {
	_ = p.ctl(unix.EPOLL_CTL_DEL, fd, 0, 0)
}

// Wait waits for events, at most timeoutMs milliseconds (-1: without end, 0:
// not at all), and returns how many there are; At tells each.
//
// It may return early without events; the caller's loop comes again.
func (p *Poller) Wait(timeoutMs int) int {
	if timeoutMs >= 0 && timeoutMs <= busyMs {
		n, _ := p.waitRaw(timeoutMs)
		p.idle = p.idle && n == 0
		return n
	}
	if !p.idle {
		n, errno := p.waitRaw(busyMs)
		if n > 0 || errno != 0 {
			return n
		}
		p.idle = true
		if timeoutMs > 0 {
			timeoutMs -= busyMs
		}
	}
	n := p.park(timeoutMs)
	p.idle = n == 0
	return n
}

// At returns event i of the last Wait. woken says that it was Wake.
func (p *Poller) At(i int) (token uint64, ready Readiness, woken bool) {
	e := &p.events[i]
	token = uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
	return token, Readiness(e.Events), token == wakeToken
}

// Wake makes the current or next Wait return. It may be called from any
// goroutine. The counter is never read: each write is an edge of its own, and
// 2^64-1 of them take longer than any machine runs.
func (p *Poller) Wake() {
	one := [8]byte{0: 1}
	_, _ = unix.Write(p.wakeFd, one[:])
}
