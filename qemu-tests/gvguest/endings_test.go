package gvguest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// end is one side of a connection, with what both sides can do.
type end interface {
	halfCloser
	abort() error
	// isReset tells a reset from other errors.
	isReset(error) bool
}

type guestEnd struct{ *gvguest.Conn }

func (e guestEnd) abort() error           { return e.Abort() }
func (e guestEnd) isReset(err error) bool { return gvguest.IsReset(err) }

type hostEnd struct{ *net.TCPConn }

func (e hostEnd) abort() error {
	if err := e.SetLinger(0); err != nil {
		return err
	}
	return e.Close()
}

func (e hostEnd) isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// drainReset reads to the end, which has to be a reset.
func drainReset(e end, seed uint64) error {
	err := expect(e, seed, 1<<40)
	if !e.isReset(err) {
		return fmt.Errorf("end seen as %w, want a reset", err)
	}
	return nil
}

// prefix reads the first n bytes of a stream.
func prefix(e end, seed uint64, n int) error {
	got, want := make([]byte, n), make([]byte, n)
	if k, err := io.ReadFull(e, got); err != nil {
		return fmt.Errorf("receive at byte %d of %d: %w", k, n, err)
	}
	_, _ = stream(seed).Read(want)
	if !bytes.Equal(got, want) {
		return errors.New("wrong bytes")
	}
	return nil
}

// endings are the ways in which a connection ends; a acts, b looks on.
func endings() map[string]func(a, b end, rng *rand.Rand) error {
	return map[string]func(a, b end, rng *rand.Rand) error{
		"half-close, then data back": func(a, b end, rng *rand.Rand) error {
			n, m := rng.IntN(100_000), rng.IntN(400_000)
			done := make(chan error, 1)
			go func() {
				err := expect(b, 1, n)
				if err == nil { // b knows that a has ended, and goes on
					time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
					err = send(b, 2, m)
				}
				done <- errors.Join(err, b.Close())
			}()
			err := errors.Join(send(a, 1, n), a.CloseWrite())
			err = errors.Join(err, expect(a, 2, m))
			return errors.Join(err, <-done, a.Close())
		},
		"abort of an idle connection": func(a, b end, rng *rand.Rand) error {
			n := rng.IntN(50_000)
			if err := errors.Join(send(a, 1, n), prefix(b, 1, n)); err != nil {
				return err
			}
			return errors.Join(a.abort(), drainReset(b, 3), b.Close())
		},
		"abort behind data": func(a, b end, rng *rand.Rand) error {
			if err := send(a, 1, rng.IntN(50_000)); err != nil {
				return err
			}
			return errors.Join(a.abort(), drainReset(b, 1), b.Close())
		},
		"abort under data in both directions": func(a, b end, rng *rand.Rand) error {
			sent, gone := make(chan error, 1), make(chan error, 1)
			go func() { sent <- send(b, 2, 1<<30) }()
			go func() { gone <- send(a, 1, 1<<30) }()
			wait := time.Duration(rng.IntN(30)) * time.Millisecond
			time.AfterFunc(wait, func() { _ = a.abort() })
			err := drainReset(b, 1)
			if serr := <-sent; b.isReset(serr) {
				err = nil // a socket says it once, to whom comes first
			}
			if <-gone == nil {
				err = errors.Join(err, errors.New("an endless stream was sent"))
			}
			return errors.Join(err, b.Close())
		},
		"abort by the half that goes on": func(a, b end, rng *rand.Rand) error {
			n := rng.IntN(20_000)
			if err := errors.Join(send(b, 2, n), b.CloseWrite(), expect(a, 2, n)); err != nil {
				return err
			}
			return errors.Join(a.abort(), drainReset(b, 1), b.Close())
		},
		"abort by the half that has ended": func(a, b end, rng *rand.Rand) error {
			n := rng.IntN(20_000)
			if err := errors.Join(send(a, 2, n), a.CloseWrite(), expect(b, 2, n)); err != nil {
				return err
			}
			return errors.Join(a.abort(), waitReset(b), b.Close())
		},
		"close with unread data": func(a, b end, rng *rand.Rand) error {
			if err := errors.Join(send(b, 1, 1+rng.IntN(50_000)), prefix(a, 1, 1)); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
			return errors.Join(a.Close(), drainReset(b, 1), b.Close())
		},
		"both close at once": func(a, b end, rng *rand.Rand) error {
			n, m := rng.IntN(50_000), rng.IntN(50_000)
			done := make(chan error, 1)
			go func() { done <- exchange(a, 1, n, 2, m) }()
			return errors.Join(exchange(b, 2, m, 1, n), <-done, a.Close(), b.Close())
		},
	}
}

// waitReset writes until the connection is reset: the reading half is over.
func waitReset(e end) error {
	for range 2000 {
		if _, err := e.Write([]byte("x")); err != nil {
			if !e.isReset(err) {
				return fmt.Errorf("end seen as %w, want a reset", err)
			}
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("never reset")
}

// TestEndings ends connections in every way, by either side, over every route,
// several at a time.
func TestEndings(t *testing.T) {
	rounds := scaled(40)
	b := newBench(t, linuxSetup).boot()
	var connectors []*connector
	for _, r := range routes() {
		c := b.connector(r)
		defer c.close()
		connectors = append(connectors, c)
	}
	for name, ending := range endings() {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for _, c := range connectors {
				for _, by := range []string{"guest", "host"} {
					all.Go(func() {
						for round := range rounds {
							if err := endOne(c, by, ending); err != nil {
								t.Errorf("%v, by the %s, round %d: %v", c.r, by, round, err)
								return
							}
						}
					})
				}
			}
			all.Wait()
		})
	}
}

func endOne(c *connector, by string, ending func(a, b end, rng *rand.Rand) error) error {
	gc, hc, err := c.pair()
	if err != nil {
		return err
	}
	g, h := guestEnd{gc}, hostEnd{hc}
	rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
	if by == "guest" {
		err = ending(g, h, rng)
	} else {
		err = ending(h, g, rng)
	}
	if err != nil {
		_, _ = g.abort(), h.abort()
	}
	return err
}
