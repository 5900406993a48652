package poller

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parking lets the poller's goroutine wait in Go's own poller, so that a quiet
// worker holds neither a thread nor a processor of the Go scheduler, and the
// scheduler's monitor thread sleeps too. (A goroutine that blocks in a system
// call wakes that thread up; it then looks every 20 µs whether the call has
// ended: 50 system calls and more for one event.)
//
// Go's poller does not watch the epoll descriptor itself, since it would wake
// another thread for each event that the worker takes in a raw wait. It watches a
// second one, gate, in which the first is registered for its events only while the
// goroutine is parked: the gate is open.
type parking struct {
	gate    int // owned by file
	file    *os.File
	conn    syscall.RawConn
	ready   func(uintptr) bool
	found   int  // what ready found
	limited bool // file has a deadline
}

func (p *Poller) openParking() error {
	gate, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create epoll: %w", err)
	}
	if err := unix.SetNonblock(gate, true); err != nil { // or os.File would not use Go's poller
		_ = unix.Close(gate)
		return fmt.Errorf("make epoll pollable: %w", err)
	}
	k := &p.parking
	k.gate, k.file = gate, os.NewFile(uintptr(gate), "epoll")
	if k.conn, err = k.file.SyscallConn(); err == nil {
		err = k.file.SetReadDeadline(time.Time{}) // an error if Go's poller did not take it
	}
	if err == nil {
		err = p.gateCtl(unix.EPOLL_CTL_ADD, 0)
	}
	if err != nil {
		_ = k.file.Close()
		k.file = nil
		return fmt.Errorf("watch epoll with Go's poller: %w", err)
	}
	k.ready = func(uintptr) bool { return p.look() }
	return nil
}

func (p *Poller) closeParking() {
	if p.parking.file != nil {
		_ = p.parking.file.Close()
		p.parking.file = nil
	}
}

// park waits like Wait.
func (p *Poller) park(timeoutMs int) int {
	k := &p.parking
	switch {
	case timeoutMs >= 0:
		_ = k.file.SetReadDeadline(time.Now().Add(time.Duration(timeoutMs) * time.Millisecond))
		k.limited = true
	case k.limited:
		_ = k.file.SetReadDeadline(time.Time{})
		k.limited = false
	}
	k.found = 0
	_ = k.conn.Read(k.ready) // the only error is that the time is over
	_ = p.gateCtl(unix.EPOLL_CTL_MOD, 0)
	return k.found
}

// look takes events, and opens the gate if there are none.
func (p *Poller) look() bool {
	if p.take() {
		return true
	}
	// The event that ended the last park is still listed in the gate, and what
	// is listed makes no edge.
	p.emptyGate()
	if p.gateCtl(unix.EPOLL_CTL_MOD, unix.EPOLLIN) != nil {
		return true // cannot be; to come again at once is no worse than a spin
	}
	return p.take() // or it came in between
}

// take takes events. An interrupted call counts as one: the caller comes again.
func (p *Poller) take() bool {
	n, errno := p.waitRaw(0)
	p.parking.found = n
	return n > 0 || errno != 0
}
