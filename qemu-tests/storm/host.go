package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// host is the host's side of a storm: servers, or clients.
type host struct {
	ns        *sandbox.NetNS
	done      *atomic.Int64
	listeners []net.Listener
	ctx       context.Context
	cancel    context.CancelFunc
	all       sync.WaitGroup
	mu        sync.Mutex
	errs      []error
}

func newHost(ns *sandbox.NetNS, done *atomic.Int64) *host {
	h := &host{ns: ns, done: done}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// stop ends it and returns what went wrong with connections.
func (h *host) stop() error {
	h.cancel()
	for _, l := range h.listeners {
		l.Close()
	}
	h.all.Wait()
	return errors.Join(h.errs[:min(len(h.errs), 5)]...)
}

func (h *host) finished(what string, err error) {
	h.done.Add(1)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.errs = append(h.errs, fmt.Errorf("%s: %w", what, err))
	}
}

// startServers listens on a port for each way to close.
func startServers(ns *sandbox.NetNS, done *atomic.Int64) (*host, error) {
	h := newHost(ns, done)
	for w := range ways {
		l, err := ns.Listen("tcp4", netip.AddrPortFrom(stage.PeerAddr, w.port()).String())
		if err != nil {
			return nil, errors.Join(err, h.stop())
		}
		h.listeners = append(h.listeners, l)
		h.all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				h.all.Go(func() { h.finished("serve", serve(c.(*net.TCPConn), w)) })
			}
		})
	}
	return h, nil
}

func serve(c *net.TCPConn, w way) error {
	_ = c.SetDeadline(time.Now().Add(stall))
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return errors.Join(err, c.Close())
	}
	if _, err := c.Write(b[:]); err != nil {
		return errors.Join(err, c.Close())
	}
	if w == byGuest {
		return errors.Join(expectEnd(c), c.Close())
	}
	return c.Close()
}

// expectEnd demands that the other side has nothing more to say.
func expectEnd(c *net.TCPConn) error {
	var b [1]byte
	if n, err := c.Read(b[:]); n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("%d more bytes in place of the end: %w", n, err)
	}
	return nil
}

// startClients connects to the guest's ports, which the VM's host forwards.
func startClients(ns *sandbox.NetNS, c Config, done *atomic.Int64) *host {
	h := newHost(ns, done)
	var begun atomic.Int64
	// One list for all: the port that rests longest is next.
	sources := make(chan uint16, Sources)
	for i := range Sources {
		sources <- firstSource + uint16(i)
	}
	for range c.Parallel {
		h.all.Go(func() {
			for begun.Add(1) <= int64(c.Cycles) && h.ctx.Err() == nil {
				source := <-sources
				h.finished(fmt.Sprintf("connection from port %d", source), h.cycle(source, way(rand.IntN(int(ways)))))
				sources <- source
			}
		})
	}
	return h
}

// cycle is one connection. It closes only behind the guest's FIN, as there is no TIME-WAIT.
func (h *host) cycle(source uint16, w way) error {
	conn, err := h.dial(source, w.port())
	if err != nil {
		return err
	}
	defer conn.Close()
	c := conn.(*net.TCPConn)
	_ = c.SetDeadline(time.Now().Add(stall))
	b := [1]byte{1}
	if _, err := c.Write(b[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	if w != byGuest {
		if err := c.CloseWrite(); err != nil {
			return err
		}
	}
	return expectEnd(c)
}

func (h *host) dial(source, port uint16) (conn net.Conn, err error) {
	fd, err := h.socket(source)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "tcp")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	_ = f.SetDeadline(time.Now().Add(stall))
	to := &unix.SockaddrInet4{Addr: stage.VMAddr.As4(), Port: int(port)}
	first, cerr := true, error(nil)
	err = raw.Write(func(fd uintptr) bool {
		if first {
			first = false
			cerr = unix.Connect(int(fd), to)
			return !errors.Is(cerr, unix.EINPROGRESS)
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if cerr = err; code != 0 {
			cerr = syscall.Errno(code)
		}
		return true
	})
	if err = errors.Join(err, cerr); err != nil {
		return nil, fmt.Errorf("connect to port %d: %w", port, err)
	}
	return net.FileConn(f)
}

// socket makes a socket that is bound to a port. Namespaces cost a thread's switch, so that net.Dialer is not used in them.
func (h *host) socket(source uint16) (fd int, err error) {
	err = h.ns.Do(func() error {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, &unix.SockaddrInet4{Port: int(source)}),
		)
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("bind to port %d: %w", source, err)
	}
	return fd, nil
}
