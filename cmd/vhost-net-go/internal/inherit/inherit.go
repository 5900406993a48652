// Package inherit takes over the sockets that a service manager opened for us
// (socket activation, sd_listen_fds(3)).
package inherit

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// Sockets are what was handed over, told apart by what they are.
type Sockets struct {
	// FD is the Unix socket on which the frontend comes, or -1, and Path
	// where it is bound, or "".
	FD   int
	Path string
	// Forwards are sockets for ports of the host.
	Forwards []netstack.InheritedSocket
}

var errSecond = errors.New("a second Unix socket; one daemon serves one virtual machine")

// Take takes them from the environment, once: children of ours get none. Without
// any it returns Sockets with FD -1.
func Take() (Sockets, error) {
	return take(activation.Files(true))
}

func take(files []*os.File) (Sockets, error) {
	s := Sockets{FD: -1}
	var err error
	for _, f := range files {
		if e := s.add(f); e != nil {
			err = errors.Join(err, fmt.Errorf("LISTEN_FDS: descriptor %d (%s): %w", f.Fd(), f.Name(), e))
		}
		_ = f.Close() // what is used was duplicated
	}
	if err != nil {
		s.Close()
		return Sockets{FD: -1}, err
	}
	return s, nil
}

func (s *Sockets) add(f *os.File) error {
	domain, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if domain == unix.AF_UNIX && s.FD >= 0 {
		return errSecond
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if domain == unix.AF_UNIX {
		s.FD, s.Path = fd, boundTo(fd)
		return nil
	}
	in, err := hostsock.Inspect(fd)
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	s.Forwards = append(s.Forwards, netstack.InheritedSocket{FD: fd, Inherited: in})
	return nil
}

// boundTo is the path of a Unix socket, "" for none.
func boundTo(fd int) string {
	sa, err := unix.Getsockname(fd)
	if u, ok := sa.(*unix.SockaddrUnix); ok && err == nil {
		return u.Name
	}
	return ""
}

// Rules returns rules for the sockets that none of the given ones uses: each
// leads to the port of the same number in the guest.
func (s *Sockets) Rules(given []forward.Rule) []forward.Rule {
	var more []forward.Rule
	for _, in := range s.Forwards {
		if !served(in, given) {
			more = append(more, ruleFor(in))
		}
	}
	return more
}

func served(in netstack.InheritedSocket, given []forward.Rule) bool {
	for _, r := range given {
		port := in.Local.Port()
		if r.FirstPort <= port && port <= r.LastPort && in.Serves(r, port) {
			return true
		}
	}
	return false
}

func ruleFor(in netstack.InheritedSocket) forward.Rule {
	port := in.Local.Port()
	r := forward.Rule{
		Proto: forward.UDP, ListenAddr: in.Local.Addr(), Interface: in.Device,
		FirstPort: port, LastPort: port, TargetFirstPort: port,
	}
	if in.Stream {
		r.Proto = forward.TCP
	}
	if in.Dual {
		r.ListenAddr = netip.Addr{}
	}
	return r
}

// Close closes what has not been passed on.
func (s *Sockets) Close() {
	if s.FD >= 0 {
		_ = unix.Close(s.FD)
	}
	for _, in := range s.Forwards {
		_ = unix.Close(in.FD)
	}
}
