package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

const (
	messageBytes = 1000
	stepLimit    = 5 * time.Second // for one event
	peerPort     = 5001
)

// events is the guest's handler: it remembers what happened to the one
// connection that is looked at.
type events struct{ seen synth.Event }

func (e *events) Event(_ *synth.Conn, what synth.Event) { e.seen |= what }

// take reports whether all of what has happened, and forgets it.
func (e *events) take(what synth.Event) bool {
	if e.seen&what != what {
		return false
	}
	e.seen &^= what
	return true
}

// bench drives a backend: the guest, and a server on the peer host.
type bench struct {
	o      options
	g      *synth.Guest
	events events
	listen int
	buf    []byte
}

func newBench(s *stage.Stage, b *stage.Backend, o options) (*bench, error) {
	t := &bench{o: o, listen: -1, buf: make([]byte, 64<<10)}
	var err error
	t.g, err = b.Guest(synth.Config{
		MTU: o.mtu, Conns: max(o.flows, 16), Handler: &t.events, TxCalls: o.txCalls,
	})
	if err != nil {
		return nil, err
	}
	if t.listen, err = stage.Listen(s.Peer, netip.AddrPortFrom(stage.PeerAddr, peerPort)); err != nil {
		return nil, errors.Join(err, t.close())
	}
	t.g.Watch(t.listen)
	return t, nil
}

func (t *bench) close() error {
	if t.listen >= 0 {
		unix.Close(t.listen)
	}
	return t.g.Close()
}

// wait runs the guest until done.
func (t *bench) wait(what string, done func() bool) error {
	if err := t.g.Run(stepLimit, done); err != nil {
		return fmt.Errorf("%s: %w (guest: %+v)", what, err, t.g.Counters)
	}
	return nil
}

// rest lets the backend finish with what it was given, and then do nothing for
// a while.
func (t *bench) rest(d time.Duration) error {
	end := time.Now().Add(stepLimit)
	for !t.g.Idle() { // nobody calls when the backend has taken the last frame
		if _, err := t.g.Poll(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return errors.New("the backend does not take what the guest has sent")
		}
		time.Sleep(50 * time.Microsecond)
	}
	end = time.Now().Add(d)
	err := t.g.Run(d, func() bool { return time.Now().After(end) })
	if errors.Is(err, synth.ErrTimeout) {
		return nil
	}
	return err
}

// open makes a connection and returns both ends of it.
func (t *bench) open() (c *synth.Conn, fd int, err error) {
	if c, err = t.g.Connect(stage.PeerAddr, peerPort); err != nil {
		return nil, -1, err
	}
	fd = -1
	err = t.wait("connect", func() bool {
		if fd < 0 {
			fd = t.accept()
		}
		return fd >= 0 && t.events.take(synth.Opened)
	})
	if err == nil {
		err = t.rest(0)
	}
	return c, fd, err
}

// accept returns a connection, or -1.
func (t *bench) accept() int {
	fd, _, err := unix.Accept4(t.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return -1
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return fd
}

// read reads what there is and returns how much that was.
func (t *bench) read(fd int) int {
	n, _ := unix.Read(fd, t.buf)
	return max(n, 0)
}

// segmentsOut sends segments from the guest, each when the one before has
// arrived.
func (t *bench) segmentsOut(n int) error {
	c, fd, err := t.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	t.g.Watch(fd)
	defer t.g.Unwatch(fd)
	for i := range n {
		t.g.Send(c, messageBytes)
		got := 0
		if err := t.wait(fmt.Sprintf("segment %d", i), func() bool {
			got += t.read(fd)
			return got >= messageBytes
		}); err != nil {
			return err
		}
		if err := t.rest(t.o.gap); err != nil {
			return err
		}
	}
	t.g.Abort(c)
	return t.rest(20 * time.Millisecond)
}

// messagesIn sends messages to the guest, each when the guest has acknowledged
// the one before and the backend has seen that.
func (t *bench) messagesIn(n int) error {
	c, fd, err := t.open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	want := uint64(0)
	for i := range n {
		if m, err := unix.Write(fd, t.buf[:messageBytes]); m != messageBytes {
			return fmt.Errorf("write message %d: %d bytes, %w", i, m, err)
		}
		want += messageBytes
		if err := t.wait(fmt.Sprintf("message %d", i), func() bool {
			return c.Received >= want
		}); err != nil {
			return err
		}
		if err := t.rest(t.o.gap); err != nil {
			return err
		}
	}
	t.g.Abort(c)
	return t.rest(20 * time.Millisecond)
}

// shortConnections opens connections, one after another; each carries a request
// and a response and is closed by the guest, then by the server.
func (t *bench) shortConnections(n int) error {
	for i := range n {
		c, fd, err := t.open()
		if err != nil {
			return err
		}
		t.g.Watch(fd)
		t.g.Send(c, 100)
		got, answered := 0, false
		err = t.wait(fmt.Sprintf("request %d", i), func() bool {
			if got += t.read(fd); got == 100 && !answered {
				_, _ = unix.Write(fd, t.buf[:100])
				answered = true
			}
			return c.Received == 100
		})
		if err == nil {
			t.g.End(c)
			open := true
			err = t.wait(fmt.Sprintf("close %d", i), func() bool {
				if m, err := unix.Read(fd, t.buf); open && m == 0 && err == nil {
					t.g.Unwatch(fd)
					unix.Close(fd)
					open = false
				}
				return !open && t.events.take(synth.Closed)
			})
		}
		if err == nil {
			err = t.rest(t.o.gap)
		}
		if err != nil {
			return err
		}
		t.events.seen = 0
	}
	return nil
}
