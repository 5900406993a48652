package hostsock

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenStream opens a TCP socket, non-blocking and closed on exec. Urgent data stays in line (RFC 6093 section 6): taken out, it would be a hole in
// the stream.
func OpenStream(v6 bool) (int, Errno) {
	family := uintptr(unix.AF_INET)
	if v6 {
		family = unix.AF_INET6
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, family,
		unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if errno != 0 {
		return -1, errno
	}
	if errno = setsockopt(int(fd), unix.SOL_SOCKET, unix.SO_OOBINLINE, 1); errno != 0 {
		Close(int(fd))
		return -1, errno
	}
	return int(fd), 0
}

// SetNoDelay turns Nagle's algorithm off: the guest has one of its own, and two in
// a row only add delay.
func SetNoDelay(fd int) Errno {
	return setsockopt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// SetPeekOffset sets where the next Peek on fd starts, in bytes from the head
// of its receive queue (SO_PEEK_OFF). Kernels before 6.9 refuse it for TCP.
func SetPeekOffset(fd, off int) Errno {
	return setsockopt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, int32(off))
}

// HasPeekOffset says whether this kernel takes SO_PEEK_OFF on TCP sockets of
// both families.
func HasPeekOffset() bool {
	for _, v6 := range []bool{false, true} {
		fd, errno := OpenStream(v6)
		if errno != 0 {
			continue // a family that the host lacks has no say
		}
		errno = SetPeekOffset(fd, 0)
		Close(fd)
		if errno != 0 {
			return false
		}
	}
	return true
}

// ListenStream opens a listening TCP socket on e, or on all addresses of the
// families where e has no address at all. Connections inherit TCP_NODELAY from
// it.
func ListenStream(e Endpoint, o ListenOptions) (int, error) {
	fd, errno := OpenStream(o.V6)
	if errno != 0 {
		return -1, fmt.Errorf("open a TCP socket: %w", errno)
	}
	err := listenStream(fd, e, o)
	if err != nil {
		Close(fd)
		return -1, err
	}
	return fd, nil
}

func listenStream(fd int, e Endpoint, o ListenOptions) error {
	if errno := setsockopt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); errno != 0 {
		return fmt.Errorf("set SO_REUSEADDR: %w", errno)
	}
	if errno := SetNoDelay(fd); errno != 0 {
		return fmt.Errorf("set TCP_NODELAY: %w", errno)
	}
	if err := bindListener(fd, e, o); err != nil {
		return err
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return fmt.Errorf("listen on %v: %w", e, err)
	}
	return nil
}

// TakeError returns and clears the pending error of fd (SO_ERROR).
func TakeError(fd int) Errno {
	v, errno := getsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if errno != 0 {
		return errno
	}
	return Errno(v)
}

// ShutdownWrite ends the sending direction of fd: the peer sees end of file
// behind the last byte.
func ShutdownWrite(fd int) Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
	return errno
}

// Close closes fd.
func Close(fd int) {
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}

// Abort closes fd so that its peer sees a reset (SO_LINGER with time 0,
// socket(7)).
func Abort(fd int) {
	setLinger0(fd)
	Close(fd)
}

// SetKeepalive makes the host's kernel probe an idle peer, as the guest asked
// for by probing us.
func SetKeepalive(fd int) Errno {
	return setsockopt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
}

// MaxSendBuffer returns how large the host's kernel lets the send buffer of a
// TCP socket grow, in bytes (the last number of tcp_wmem, tcp(7)), or 0 if it does
// not say.
func MaxSendBuffer() int {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_wmem")
	if err != nil {
		return 0
	}
	return lastNumber(string(b))
}

// lastNumber returns the last of the numbers in s, or 0.
func lastNumber(s string) int {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil || n < 0 {
		return 0
	}
	return n
}
