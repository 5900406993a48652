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
