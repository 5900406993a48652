package gvguest_test

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// TestBeforeTheGuest: connections of the host that are older than the guest
// reach it when it is up.
func TestBeforeTheGuest(t *testing.T) {
	b := newBench(t, linuxSetup)
	const n = 40
	conns := map[family][]*net.TCPConn{}
	for _, f := range families() {
		for i := range n {
			c, err := b.dialGuest(f)
			b.must(err)
			_ = c.SetDeadline(time.Now().Add(patience))
			conns[f] = append(conns[f], c)
			if i%2 == 0 { // some say something at once
				b.must(send(c, 1, 1000))
			}
		}
	}
	time.Sleep(1500 * time.Millisecond)
	b.newRings()
	b.start()
	listeners := map[family]*gvguest.Listener{}
	for _, f := range families() {
		var err error
		listeners[f], err = b.guest.Listen(f.v6(), guestPort)
		b.must(err)
		defer listeners[f].Close()
	}
	b.worker.Park(b.attach)
	for _, f := range families() {
		for range n {
			gc, err := listeners[f].Accept()
			b.must(err)
			gc.SetTimeout(patience)
			go func() {
				g := guestEnd{gc}
				if err := errors.Join(prefix(g, 1, 1000), send(g, 2, 1000), g.Close()); err != nil {
					t.Errorf("guest: %v", err)
				}
			}()
		}
		for i, c := range conns[f] {
			h := hostEnd{c}
			if i%2 != 0 {
				b.must(send(h, 1, 1000))
			}
			if err := errors.Join(expect(h, 2, 1000), h.Close()); err != nil {
				t.Errorf("host, %s connection %d: %v", f.name, i, err)
			}
		}
	}
}

// TestRefused: nobody listens, on the host or in the guest.
func TestRefused(t *testing.T) {
	b := newBench(t, linuxSetup).boot()
	for _, f := range families() {
		if _, err := b.guest.Dial(t.Context(), netip.AddrPortFrom(f.seen, freePort(t, f)), 0); !gvguest.IsRefused(err) {
			t.Errorf("%s: guest got %v, want refused", f.name, err)
		}
		c, err := b.dialGuest(f) // the backend listens
		if errors.Is(err, syscall.ECONNRESET) {
			continue // the guest was faster than the dialler
		}
		b.must(err)
		_ = c.SetDeadline(time.Now().Add(patience))
		if err := drainReset(hostEnd{c}, 1); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		c.Close()
	}
}

// traffic keeps all routes busy for as long as f runs, and checks every byte.
func (b *bench) traffic(f func()) {
	b.Helper()
	b.trafficOf(scaled(1<<20), f)
}

// crumbs is how much a connection carries in tests that drop frames of the guest:
// gVisor's stack sends again only two segments a second once both ends have
// finished (CLOSING).
const crumbs = 32 << 10

// trafficOf is traffic with connections of n bytes each way.
func (b *bench) trafficOf(n int, f func()) {
	b.Helper()
	var all sync.WaitGroup
	stop := make(chan struct{})
	for _, r := range routes() {
		c := b.connector(r)
		defer c.close()
		c.timeout = 4 * patience
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					b.transfer(c, 2, n, n)
				}
			}
		})
	}
	f()
	close(stop)
	all.Wait()
}

// TestStopAndContinue takes the rings away from the worker under traffic, as
// QEMU's stop does, and gives them back.
func TestStopAndContinue(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			b := newBench(t, s).boot()
			b.traffic(func() {
				for range 25 {
					time.Sleep(20 * time.Millisecond)
					b.detach()
					rxAt, txAt := b.rx.State(), b.tx.State()
					time.Sleep(5 * time.Millisecond)
					b.worker.Park(func() { b.attachAt(rxAt, txAt) })
				}
			})
		})
	}
}

// TestDisable disables and enables the rings under traffic.
func TestDisable(t *testing.T) {
	b := newBench(t, linuxSetup).boot()
	b.trafficOf(crumbs, func() {
		// Mostly some frame meets a disabled ring soon.
		for i := 0; i < 30 || b.worker.Snapshot().Counters.TxDisabled == 0 && i < 1000; i++ {
			time.Sleep(20 * time.Millisecond)
			rx, tx := i%3 != 0, i%3 != 1
			b.worker.Park(func() {
				b.worker.EnableRx(rx)
				b.worker.EnableTx(tx)
			})
			time.Sleep(5 * time.Millisecond)
			b.worker.Park(func() {
				b.worker.EnableRx(true)
				b.worker.EnableTx(true)
			})
		}
	})
	if b.worker.Snapshot().Counters.TxDisabled == 0 {
		t.Error("no frame met a disabled ring")
	}
}

// TestReboot crashes the guest under traffic, over and over. The host's old
// connections end by reset as soon as they say something to the new guest; new
// ones work at once.
func TestReboot(t *testing.T) {
	b := newBench(t, linuxSetup).boot()
	for round := range 10 {
		var old []*net.TCPConn
		for _, r := range routes() {
			c := b.connector(r)
			for range 5 {
				g, h, err := c.pair()
				b.must(err)
				old = append(old, h)
				go func() { _ = send(guestEnd{g}, 1, 1<<30) }()
			}
			c.close()
		}
		time.Sleep(20 * time.Millisecond)
		b.guest.Crash()
		b.unplug()
		b.boot()
		for _, r := range routes() {
			c := b.connector(r)
			b.transfer(c, 2, 100_000, 100_000)
			c.close()
		}
		for i, c := range old {
			if err := rouse(hostEnd{c}); err != nil {
				t.Errorf("round %d, old connection %d: %v", round, i, err)
			}
			c.Close()
		}
	}
}

// rouse says something to a guest that has forgotten the connection, and waits
// for its reset.
func rouse(h hostEnd) error {
	_ = h.SetDeadline(time.Now().Add(patience))
	if _, err := h.Write([]byte("are you there?")); err != nil {
		if h.isReset(err) {
			return nil
		}
		return err
	}
	return drainReset(h, 1)
}
