package gvguest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

const stormMessage = 300

// TestStorm connects and closes over and over from few ports, so that the same
// 4-tuples come again at once, whoever closes first.
func TestStorm(t *testing.T) {
	const ports, lanes = 200, 8
	cycles := scaled(6_000) / lanes
	for _, r := range routes() {
		for _, first := range []string{"client", "server"} {
			if r.inbound && first == "client" {
				continue // the host's own TIME-WAIT forbids the next connection
			}
			t.Run(r.String()+", closed by the "+first, func(t *testing.T) {
				b := newBench(t, linuxSetup).boot()
				var all sync.WaitGroup
				defer all.Wait()
				var dial func(port uint16) (end, error)
				if r.inbound {
					l, err := b.guest.Listen(r.v6(), guestPort)
					b.must(err)
					defer l.Close()
					all.Go(func() {
						serveAll(func() (end, error) { c, err := l.Accept(); return guestEnd{c}, err }, first == "server", &all)
					})
					dial = func(port uint16) (end, error) { return dialFrom(b, r.family, port) }
				} else {
					l, err := net.ListenTCP("tcp", r.any())
					b.must(err)
					defer l.Close()
					addr := net.TCPAddrFromAddrPort(l.Addr().(*net.TCPAddr).AddrPort()).AddrPort().Port()
					all.Go(func() {
						serveAll(func() (end, error) { c, err := l.AcceptTCP(); return hostEnd{c}, err }, first == "server", &all)
					})
					dial = func(port uint16) (end, error) { return b.dialGuestFrom(r.family, addr, port) }
				}
				err := inParallel(lanes, lanes, func(lane int) error {
					for i := range cycles {
						port := uint16(20_000 + lane*ports/lanes + i%(ports/lanes))
						if err := cycle(dial, port, first == "client"); err != nil {
							return fmt.Errorf("cycle %d from port %d: %w", i, port, err)
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					b.dump()
				}
			})
		}
	}
}

// serveAll answers each connection with a message, until accept fails.
func serveAll(accept func() (end, error), closeFirst bool, all *sync.WaitGroup) {
	for {
		c, err := accept()
		if err != nil {
			return
		}
		all.Go(func() {
			defer c.Close()
			if prefix(c, 1, stormMessage) != nil || send(c, 2, stormMessage) != nil || closeFirst {
				return
			}
			_ = expect(c, 1, 0) // the client closes
		})
	}
}

// cycle is one connection: connect, question, answer, close.
func cycle(dial func(port uint16) (end, error), port uint16, closeFirst bool) error {
	c, err := dial(port)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	if err := send(c, 1, stormMessage); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if closeFirst {
		if err := prefix(c, 2, stormMessage); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		return c.Close()
	}
	if err := expect(c, 2, stormMessage); err != nil {
		return fmt.Errorf("answer to the end: %w", err)
	}
	return nil
}

// dialFrom connects the host to the guest from a given port.
func dialFrom(b *bench, f family, port uint16) (end, error) {
	d := net.Dialer{
		Timeout:   patience,
		LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.loopback, port)),
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
			return errors.Join(cerr, err)
		},
	}
	c, err := d.Dial("tcp", netip.AddrPortFrom(f.loopback, b.ports[f]).String())
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return hostEnd{c.(*net.TCPConn)}, nil
}

// dialGuestFrom connects the guest to a port of the host from a given port,
// which the guest's own TIME-WAIT may hold for a moment.
func (b *bench) dialGuestFrom(f family, to, from uint16) (end, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c, err := b.guest.Dial(ctx, netip.AddrPortFrom(f.seen, to), from)
		if err == nil {
			c.SetTimeout(patience)
			return guestEnd{c}, nil
		}
		if !gvguest.IsPortBusy(err) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(2 * time.Millisecond)
	}
}
