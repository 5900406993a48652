package vhostuser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Source is where frontends come from: a [Listener], a [Dialer], or a socket
// that was inherited (see [Inherit]).
type Source interface {
	// Next waits for the next frontend. It returns io.EOF when there will be
	// no more, and any error once ctx is done.
	Next(ctx context.Context) (*net.UnixConn, error)
	Close() error
}

// Inherit returns the source for an open socket, which it owns from now on: a
// connected one is the only frontend, a listening one accepts frontends.
func Inherit(fd int, opts ...ListenOption) (Source, error) {
	f := os.NewFile(uintptr(fd), "vhost-user socket")
	if f == nil {
		return nil, fmt.Errorf("inherited file descriptor %d: %w", fd, os.ErrInvalid)
	}
	defer f.Close() // both branches below duplicate it
	listening, err := checkSocket(fd)
	if err != nil {
		return nil, fmt.Errorf("inherited file descriptor %d: %w", fd, err)
	}
	if listening {
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("inherited file descriptor %d: %w", fd, err)
		}
		ul := l.(*net.UnixListener)
		ul.SetUnlinkOnClose(false)
		return newListener(ul, "", opts), nil
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("inherited file descriptor %d: %w", fd, err)
	}
	return &single{uc: c.(*net.UnixConn)}, nil
}

// checkSocket refuses what is not a Unix stream socket, and says whether it
// listens.
func checkSocket(fd int) (listening bool, err error) {
	for _, want := range []struct {
		opt, value int
		what       string
	}{
		{unix.SO_DOMAIN, unix.AF_UNIX, "not a Unix socket"},
		{unix.SO_TYPE, unix.SOCK_STREAM, "not a stream socket"},
	} {
		v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, want.opt)
		if err != nil {
			return false, os.NewSyscallError("getsockopt", err)
		}
		if v != want.value {
			return false, errors.New(want.what)
		}
	}
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return false, os.NewSyscallError("getsockopt", err)
	}
	return v != 0, nil
}

// single is a source of one connection.
type single struct{ uc *net.UnixConn }

func (s *single) Next(context.Context) (*net.UnixConn, error) {
	if s.uc == nil {
		return nil, io.EOF
	}
	uc := s.uc
	s.uc = nil
	return uc, nil
}

func (s *single) Close() error {
	if s.uc == nil {
		return nil
	}
	return s.uc.Close()
}

// peerName says who is at the other end, for the log.
func peerName(uc *net.UnixConn) string {
	raw, err := uc.SyscallConn()
	if err != nil {
		return "unknown"
	}
	name := "unknown"
	_ = raw.Control(func(fd uintptr) { // fails only for a closed socket
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			name = fmt.Sprintf("pid %d uid %d", cred.Pid, cred.Uid)
		}
	})
	return name
}
