// Package resolvfile reads the resolver file for a process that has locked itself
// out of the file system.
//
// Who changes that file mostly puts another one in its place, or lets its link
// lead elsewhere. A sandbox whose rules are about files and folders as they are
// when it is entered cannot allow what will be there later without allowing all of
// /etc. So a second process of this program stays outside. It knows one path, takes
// requests that say nothing, and answers each with the content or the error. It ends
// when the other process has ended, in whatever way.
package resolvfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// env tells the second process the path. Its end of the socket pair is number 3.
const (
	env      = "VHOST_NET_GO_RESOLVER_FILE"
	socketFD = 3
)

// MaxBytes is how much of the file is read.
const MaxBytes = 64 << 10

// A request is one byte, its number. The answer repeats it, so that one that comes
// too late is not taken for the next; then comes one of these; then the content or
// the error's text.
const (
	isContent byte = iota
	isMissing
	isError
)

const headerBytes = 2

// timeout is how long an answer may take.
const timeout = 2 * time.Second

// Reader is the side of the process that cannot read. Its methods may not be called
// at the same time.
type Reader struct {
	socket *os.File
	path   string
	pid    int // of the second process
	number byte
	buf    []byte
}

// Start starts the second process, which runs as the same user. The calling program
// must begin with Started.
func Start(path string) (*Reader, error) {
	r, err := start(path)
	if err != nil {
		return nil, fmt.Errorf("start the reader of %s: %w", path, err)
	}
	return r, nil
}

func start(path string) (*Reader, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "reader's end")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		_ = unix.Close(pair[0])
		return nil, os.NewSyscallError("fcntl", err)
	}
	ours := os.NewFile(uintptr(pair[0]), "socket of the reader")
	// Descriptors that were handed to us are for us alone. Older kernels than 5.11
	// cannot do this in one go.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	child, err := os.StartProcess("/proc/self/exe", os.Args[:1], &os.ProcAttr{
		Dir:   "/",
		Env:   []string{env + "=" + path, "GOMAXPROCS=1"},
		Files: []*os.File{null, null, null, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true}, // the terminal's signals are not for it
	})
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	pid := child.Pid
	_ = child.Release() // it outlives us by a moment
	return &Reader{socket: ours, path: path, pid: pid, buf: make([]byte, headerBytes+MaxBytes)}, nil
}

// Read returns what is in the file now, up to MaxBytes. The error is fs.ErrNotExist
// if and only if there is none. The bytes are valid until the next call.
func (r *Reader) Read() ([]byte, error) {
	text, err := r.ask()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.path, err)
	}
	return text, nil
}

func (r *Reader) ask() ([]byte, error) {
	if err := r.socket.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	r.number++
	if _, err := r.socket.Write([]byte{r.number}); err != nil {
		return nil, err
	}
	for {
		n, err := r.socket.Read(r.buf)
		if errors.Is(err, io.EOF) {
			err = errors.New("the reader has ended")
		}
		if err != nil {
			return nil, err
		}
		if n < headerBytes || r.buf[0] != r.number {
			continue
		}
		switch text := r.buf[headerBytes:n]; r.buf[1] {
		case isContent:
			return text, nil
		case isMissing:
			return nil, fs.ErrNotExist
		default:
			return nil, errors.New(string(text))
		}
	}
}

// Close lets the second process end.
func (r *Reader) Close() error { return r.socket.Close() }
