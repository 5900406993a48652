package vhostuser

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// call is the Caller of one ring. Its descriptor is exchanged only while the
// device is parked, so Call needs no lock.
type call struct {
	fd     int // -1: none, the driver polls
	socket bool
}

func newCall() call { return call{fd: -1} }

// set replaces the descriptor; the old one is closed.
func (c *call) set(fd int) {
	closeFD(&c.fd)
	c.fd, c.socket = fd, fd >= 0 && isSocket(fd)
}

// Call signals the driver.
func (c *call) Call() {
	if c.fd >= 0 {
		sendOne(c.fd, c.socket)
	}
}

// signal signals fd, if there is one.
func signal(fd int) {
	if fd >= 0 {
		sendOne(fd, isSocket(fd))
	}
}

func isSocket(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// makeSignal checks that fd is of a kind that never blocks once it is set so,
// and sets it nonblocking. Whatever else a frontend may send (a file on a slow
// network, a terminal) could hold up a worker. Frontends share the mode with us
// but none minds: QEMU's descriptors are nonblocking already, and UML closes
// its copy of the end that it sends.
func makeSignal(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	switch st.Mode & unix.S_IFMT {
	case 0, unix.S_IFSOCK, unix.S_IFIFO: // 0: an anonymous inode, as of an eventfd
	default:
		return errors.New("file descriptor is neither an eventfd, a socket nor a pipe")
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("set nonblocking: %w", err)
	}
	return nil
}
