// Package background lets the daemon detach from its caller.
//
// A Go process cannot fork. The one that was called starts itself again in a
// session of its own, waits until that child says that it is ready, and goes; so
// the caller's wait ends when the daemon can be used, and errors before that
// reach the caller's standard error and exit status.
package background

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// env tells the child the number of its end of the pipe.
const env = "VHOST_NET_GO_READY_FD"

// Child is the side that stays.
type Child struct {
	ready *os.File
	null  int // /dev/null, once prepared
}

// listenPID and listenFDs tell which process inherits how many sockets from a
// service manager (sd_listen_fds(3)), and firstListenFD where they begin.
const (
	listenPID     = "LISTEN_PID"
	listenFDs     = "LISTEN_FDS"
	firstListenFD = 3
)

// Started returns the Child if this process is the one that stays, or else nil.
// It takes the mark out of the environment, and takes over the sockets of a
// service manager's that were meant for the process that was called.
func Started() *Child {
	n, err := strconv.Atoi(os.Getenv(env))
	if err != nil || n < 3 {
		return nil
	}
	_ = os.Unsetenv(env)
	unix.CloseOnExec(n)
	if os.Getenv(listenPID) == strconv.Itoa(os.Getppid()) {
		_ = os.Setenv(listenPID, strconv.Itoa(os.Getpid()))
	}
	return &Child{ready: os.NewFile(uintptr(n), "readiness pipe")}
}

// Run starts this program again with the same arguments and returns the exit
// status for the process that was called: 0 once the child is ready, unless ctx
// ended before; then the child is told to end. keep is a descriptor that the child
// shall have under the same number, or -1; it also gets those of a service
// manager.
func Run(ctx context.Context, keep int) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 1, fmt.Errorf("start in the background: %w", err)
	}
	defer r.Close()
	files := kept(append(fromManager(), keep))
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   append(os.Environ(), env+"="+strconv.Itoa(len(files))),
		Files: append(files, w),
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	w.Close()
	if err != nil {
		return 1, fmt.Errorf("start in the background: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Signal(unix.SIGTERM) })
	defer stop()
	var word [1]byte
	if n, _ := r.Read(word[:]); n == 1 && stop() {
		return 0, child.Release()
	}
	state, err := child.Wait()
	if err != nil {
		return 1, fmt.Errorf("start in the background: %w", err)
	}
	if ctx.Err() != nil && state.Success() { // it was ready just before
		return 1, fmt.Errorf("start in the background: %w", context.Cause(ctx))
	}
	// It said why itself, unless it had no time to.
	if status := state.ExitCode(); status >= 0 {
		return status, nil
	}
	return 1, fmt.Errorf("the process in the background ended: %w", &exec.ExitError{ProcessState: state})
}

// fromManager lists the sockets of a service manager's that are for this process.
func fromManager() (fds []int) {
	n, err := strconv.Atoi(os.Getenv(listenFDs))
	if err != nil || os.Getenv(listenPID) != strconv.Itoa(os.Getpid()) {
		return nil
	}
	for fd := firstListenFD; fd < firstListenFD+n && open(fd); fd++ {
		fds = append(fds, fd)
	}
	return fds
}

func open(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// kept is the table of files in which the child has the standard ones and fds
// under their numbers. One that is not open is for the child to complain about.
func kept(fds []int) []*os.File {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for _, fd := range fds {
		if fd < len(files) && (fd < 3 || files[fd] != nil) || !open(fd) {
			continue
		}
		for len(files) <= fd {
			files = append(files, nil)
		}
		files[fd] = os.NewFile(uintptr(fd), "kept")
	}
	return files
}

// Prepare opens what Ready needs: after it Ready opens no file. It leaves the
// caller's directory.
func (c *Child) Prepare() (err error) {
	if c.null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		err = os.Chdir("/")
	}
	if err != nil {
		return fmt.Errorf("go into the background: %w", err)
	}
	return nil
}

// Ready lets go of the caller: its terminal, its wait. Prepare comes first.
func (c *Child) Ready() (err error) {
	for fd := range 3 {
		if fd != c.null {
			err = errors.Join(err, unix.Dup3(c.null, fd, 0))
		}
	}
	if c.null >= 3 {
		err = errors.Join(err, unix.Close(c.null))
	}
	if _, werr := c.ready.Write([]byte{1}); werr != nil && !errors.Is(werr, unix.EPIPE) {
		err = errors.Join(err, werr)
	}
	if err = errors.Join(err, c.ready.Close()); err != nil {
		return fmt.Errorf("go into the background: %w", err)
	}
	return nil
}
