package gvguest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// descriptors raises the limit of open files to n, and returns what it is then.
func descriptors(t *testing.T, n uint64) uint64 {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	old := l
	l.Cur, l.Max = max(l.Cur, n), max(l.Max, n)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil { // not root
		l.Cur, l.Max = old.Max, old.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
	return l.Cur
}

// held is one of many connections.
type held struct {
	talk func(seed uint64) error // exchange a message each way
	end  func(i int) error
}

// hold opens connection i: from the guest to an echo server in another process,
// so that this one's descriptors suffice, or from the host to the guest.
func (b *bench) hold(inbound map[family]*connector, echo *echoServer, i int) (held, error) {
	f := families()[i%2]
	if i/2%2 == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
		defer cancel()
		c, err := b.guest.Dial(ctx, echo.addrs[f], 0)
		if err != nil {
			return held{}, err
		}
		c.SetTimeout(9 * patience)
		g := guestEnd{c}
		return held{
			func(seed uint64) error { return swap(g, g, seed) },
			func(i int) error {
				if i%5 == 0 {
					return g.abort()
				}
				return errors.Join(g.CloseWrite(), expect(g, 0, 0), g.Close())
			},
		}, nil
	}
	gc, hc, err := inbound[f].pair()
	if err != nil {
		return held{}, err
	}
	g, h := end(guestEnd{gc}), end(hostEnd{hc})
	return held{
		func(seed uint64) error { return errors.Join(swap(h, g, seed), swap(g, h, seed+1)) },
		func(i int) error {
			if i/4%2 == 0 {
				g, h = h, g
			}
			if i%5 == 0 {
				return errors.Join(g.abort(), drainReset(h, 0), h.Close())
			}
			return errors.Join(g.CloseWrite(), expect(h, 0, 0), h.Close(), expect(g, 0, 0), g.Close())
		},
	}, nil
}

// TestManyConnections holds 10 000 connections of all routes at a time, and has
// each carry data at its begin and again when all are there.
func TestManyConnections(t *testing.T) {
	const want = 10_000
	n := scaled(want)
	if most := int(descriptors(t, 2*want)-500) / 3 * 2; n > most {
		n = most
	}
	if n < want {
		t.Logf("with %d connections instead of %d: short, slow, or not allowed to open more files", n, want)
	}
	echo := startEcho(t)
	b := newBench(t, linuxSetup)
	b.system = func(c *gvguest.Config) { c.RcvBufBytes, c.SndBufBytes = 32<<10, 32<<10 }
	b.boot()
	inbound := map[family]*connector{}
	for _, f := range families() {
		inbound[f] = b.connector(route{f, true})
		inbound[f].timeout = 9 * patience
		defer inbound[f].close()
	}
	all := make([]held, n)
	each := func(what string, f func(i int) error) {
		t.Helper()
		begin := time.Now()
		if err := inParallel(64, n, f); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, time.Since(begin).Round(time.Millisecond))
	}
	each("connect", func(i int) (err error) {
		if all[i], err = b.hold(inbound, echo, i); err != nil {
			return err
		}
		return all[i].talk(uint64(i))
	})
	if flows := b.worker.Snapshot().TCPFlows; flows != n {
		t.Errorf("%d flows, want %d", flows, n)
	}
	each("talk again", func(i int) error { return all[i].talk(uint64(i) + 1<<32) })
	each("end", func(i int) error { return all[i].end(i) })
}

// swap sends a message from one end to another, or to itself by way of an echo.
func swap(from, to end, seed uint64) error {
	const n = 1000
	if err := send(from, seed, n); err != nil {
		return err
	}
	return prefix(to, seed, n)
}

// inParallel calls f for 0 to n-1, several at a time, until one fails.
func inParallel(workers, n int, f func(i int) error) error {
	next := make(chan int)
	failed := make(chan error, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					failed <- fmt.Errorf("%d of %d: %w", i, n, err)
					return
				}
			}
		})
	}
	defer all.Wait()
	defer close(next)
	for i := range n {
		select {
		case next <- i:
		case err := <-failed:
			return err
		}
	}
	return nil
}
