package stage

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// Listen opens a listening TCP socket in ns, non-blocking, with a backlog as
// long as it may be.
func Listen(ns *sandbox.NetNS, at netip.AddrPort) (fd int, err error) {
	fd, err = socket(ns, unix.SOCK_STREAM)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(at))
	}
	if err == nil {
		err = unix.Listen(fd, 65535)
	}
	if err != nil {
		return -1, fmt.Errorf("listen on %v: %w", at, err)
	}
	return fd, nil
}

// Connect connects a TCP socket in ns to a listener. It blocks; the socket it
// returns does not.
func Connect(ns *sandbox.NetNS, to netip.AddrPort) (fd int, err error) {
	if fd, err = socket(ns, unix.SOCK_STREAM); err == nil {
		err = unix.Connect(fd, sockaddr(to))
	}
	if err == unix.EINPROGRESS {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, err = unix.Poll(fds, 5000); err == nil {
			var code int
			if code, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
				err = unix.Errno(code)
			}
		}
	}
	if err != nil {
		return -1, fmt.Errorf("connect to %v: %w", to, err)
	}
	return fd, nil
}

// Datagrams opens a UDP socket in ns.
func Datagrams(ns *sandbox.NetNS, at netip.AddrPort) (fd int, err error) {
	if fd, err = socket(ns, unix.SOCK_DGRAM); err == nil {
		err = unix.Bind(fd, sockaddr(at))
	}
	if err != nil {
		return -1, fmt.Errorf("open UDP at %v: %w", at, err)
	}
	return fd, nil
}

func socket(ns *sandbox.NetNS, kind int) (fd int, err error) {
	err = ns.Do(func() error {
		fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	return fd, err
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}
