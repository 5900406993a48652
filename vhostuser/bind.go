package vhostuser

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pathMax is the longest path that fits sockaddr_un with its final zero.
const pathMax = len(unix.RawSockaddrUnix{}.Path) - 1

// bind makes the listening socket. The path gets its mode from the socket's own
// inode, less the umask: there is no moment at which it is more open than mode.
func bind(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if path == "" || path[0] == '@' {
		return nil, errors.New("not the path of a socket in the file system")
	}
	if len(path) > pathMax {
		return nil, fmt.Errorf("path is %d bytes long, the limit for a socket is %d", len(path), pathMax)
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var ferr error
		err := raw.Control(func(fd uintptr) { ferr = unix.Fchmod(int(fd), uint32(mode)) })
		return errors.Join(err, ferr)
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, bareError(err)
	}
	ul := l.(*net.UnixListener)
	ul.SetUnlinkOnClose(false)
	return ul, nil
}

// removeStale removes the socket at path if nobody listens on it.
func removeStale(path string) error {
	before, err := identify(path)
	if err != nil {
		return err
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return errors.New("another process is listening on this socket")
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("the socket exists and cannot be told to be unused: %w", bareError(err))
	}
	if now, err := identify(path); err != nil || now != before {
		return errors.New("another process is replacing this socket")
	}
	return os.Remove(path)
}

// identify returns which socket path is.
func identify(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fileID{}, os.NewSyscallError("lstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fileID{}, errors.New("a file that is not a socket is in the way")
	}
	return fileID{dev: st.Dev, ino: st.Ino}, nil
}

// bareError drops what package net adds to an error, which repeats the path.
func bareError(err error) error {
	if oe, ok := errors.AsType[*net.OpError](err); ok {
		return oe.Err
	}
	return err
}

// fileID tells whether a path still is the file that it was.
type fileID struct{ dev, ino uint64 }
