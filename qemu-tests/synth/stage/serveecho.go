package stage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// echo serves any number of connections in one goroutine.
type echo struct {
	s         *server
	epoll     int
	listeners map[int32]bool
	buf       []byte
}

// startEcho opens the echo ports.
func (s *server) startEcho() (err error) {
	e := &echo{s: s, listeners: map[int32]bool{}, buf: make([]byte, echoBytes)}
	if e.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create epoll: %w", err)
	}
	for i := range uint16(EchoPorts) {
		fd, err := s.listen(EchoPort+i, unix.SOCK_NONBLOCK)
		if err != nil {
			return err
		}
		e.listeners[int32(fd)] = true
		if err := e.watch(fd); err != nil {
			return err
		}
	}
	go e.run()
	return nil
}

func (e *echo) watch(fd int) error {
	return unix.EpollCtl(e.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (e *echo) run() {
	events := make([]unix.EpollEvent, 256)
	for {
		n, _ := unix.EpollWait(e.epoll, events, -1)
		for _, ev := range events[:max(n, 0)] {
			if e.listeners[ev.Fd] {
				e.accept(int(ev.Fd))
			} else {
				e.answer(int(ev.Fd))
			}
		}
	}
}

// accept takes all that wait.
func (e *echo) accept(listener int) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if err := e.watch(fd); err != nil {
			e.s.add(failed, 1)
			unix.Close(fd)
			continue
		}
		e.s.add(accepted, 1)
		e.s.add(open, 1)
	}
}

// answer sends one read back. What the socket does not take at once counts as a
// failure: clients wait for each answer.
func (e *echo) answer(fd int) {
	n, err := unix.Read(fd, e.buf)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return
	case err == nil && n > 0:
		e.s.add(bytesIn, n)
		m, err := unix.Write(fd, e.buf[:n])
		if err == nil && m == n {
			e.s.add(bytesOut, n)
			return
		}
		e.s.add(failed, 1)
	case err != nil:
		e.s.add(failed, 1)
	}
	unix.Close(fd)
	e.s.add(open, -1)
}
