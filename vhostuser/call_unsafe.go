package vhostuser

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// one is what wakes an eventfd: a 64-bit 1 in host byte order. A reader of a
// socket or pipe only looks at there being something.
var one = [8]byte{1}

// sendOne writes one to fd, which is nonblocking. A full socket or an eventfd at
// its limit has a signal pending anyway, and a closed peer needs none, so errors
// do not matter. The calls do not enter the scheduler, for they never wait.
func sendOne(fd int, socket bool) {
	p := uintptr(unsafe.Pointer(&one))
	if socket {
		unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), p, uintptr(len(one)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		return
	}
	unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), p, uintptr(len(one)))
}
