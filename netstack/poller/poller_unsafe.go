package poller

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func (p *Poller) ctl(op, fd int, token uint64, want Readiness) error {
	e := unix.EpollEvent{
		Events: uint32(want) | unix.EPOLLET,
		Fd:     int32(uint32(token)),
		Pad:    int32(uint32(token >> 32)),
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.epollFd), uintptr(op), uintptr(fd),
		uintptr(unsafe.Pointer(&e)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// waitRaw waits for events, at most timeoutMs milliseconds, without telling the
// Go scheduler.
func (p *Poller) waitRaw(timeoutMs int) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epollFd),
		uintptr(unsafe.Pointer(&p.events)), maxEvents, uintptr(timeoutMs), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// gateCtl registers the epoll descriptor in the gate, or changes what is wanted.
func (p *Poller) gateCtl(op int, want uint32) error {
	e := unix.EpollEvent{Events: want}
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.parking.gate), uintptr(op), uintptr(p.epollFd),
		uintptr(unsafe.Pointer(&e)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// emptyGate takes what is listed in the gate.
func (p *Poller) emptyGate() {
	var e unix.EpollEvent
	_, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.parking.gate), uintptr(unsafe.Pointer(&e)), 1, 0, 0, 0)
}
