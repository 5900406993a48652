package gvguest_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
)

// chatter is a server on the host that talks to whoever connects until the
// connection is over, so that none outlives its guest.
func (b *bench) chatter(f family) (addr netip.AddrPort, stop func()) {
	b.Helper()
	l, err := net.ListenTCP("tcp", f.any())
	b.must(err)
	var all sync.WaitGroup
	stopped := make(chan struct{})
	all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				go func() {
					<-stopped
					_ = hostEnd{c}.abort()
				}()
				go func() { _ = expectFrom(c, stream(1), 1<<40) }()
				_ = send(c, 2, 1<<40)
			})
		}
	})
	addr = netip.AddrPortFrom(f.seen, l.Addr().(*net.TCPAddr).AddrPort().Port())
	return addr, func() {
		l.Close()
		close(stopped)
		all.Wait()
	}
}

// TestVanish: frontends that go away at any moment, with traffic in both
// directions, and with them their guests. The next one finds all in order, and
// when the host has ended the old connections nothing of them stays.
func TestVanish(t *testing.T) {
	const batch = 50
	batches := max(scaled(400)/batch, 1)
	d := newDaemon(t, linuxSetup)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	settled := measure(t)
	for n := range batches {
		var addrs []netip.AddrPort
		var stops []func()
		for _, f := range families() {
			addr, stop := d.chatter(f)
			addrs, stops = append(addrs, addr), append(stops, stop)
		}
		for round := range batch {
			d.use(setups()[(n*batch+round)%len(setups())])
			d.vanish(addrs, rng)
		}
		d.use(linuxSetup)
		d.proveAlive(func() {
			for _, stop := range stops {
				stop()
			}
			d.eventually("flows of guests that are gone have ended", func() bool { return d.flows() == 0 })
		})
		checkUsage(t, settled)
		if t.Failed() {
			t.Fatalf("after %d frontends", (n+1)*batch)
		}
	}
	if s := d.worker.Snapshot(); s.TCP.Opened < uint64(batches) {
		t.Errorf("only %d connections", s.TCP.Opened)
	}
}

// use makes the next guest take other features of those offered.
func (d *daemon) use(s setup) {
	d.setup = s
	d.nic.Features, d.nic.RxBufBytes = s.features, s.rxBufBytes
}

// vanish is one frontend with its guest, from the first message to the last,
// which is anywhere.
func (d *daemon) vanish(addrs []netip.AddrPort, rng *rand.Rand) {
	style := styles()[rng.IntN(len(styles()))]
	early := rng.IntN(4) == 0
	d.memory()
	d.rings = gvguest.RingsOf(d.vm)
	d.start()
	d.connect(style)
	var talk sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for _, addr := range addrs {
		for range 2 {
			talk.Go(func() {
				c, err := d.guest.Dial(ctx, addr, 0)
				if err != nil {
					return // it was too late
				}
				go func() { _ = send(c, 1, 1<<40) }()
				_ = expectFrom(c, stream(2), 1<<40)
				c.Close()
			})
		}
	}
	cut := make(chan struct{})
	fe := d.fe
	delay := time.Duration(rng.IntN(30_000)) * time.Microsecond
	if early {
		delay /= 50 // in the middle of the set-up
	}
	go func() {
		time.Sleep(delay)
		fe.Close()
		close(cut)
	}()
	_, _ = d.fe.Start(d.vm, d.setup.features) // fails when the cut comes early
	<-cut
	cancel()
	d.guest.Crash()
	talk.Wait()
	d.gone()
	d.leave()
}

// proveAlive serves one more guest, orderly, and runs f at its end.
func (d *daemon) proveAlive(f func()) {
	d.Helper()
	d.boot(vutest.QEMU)
	for _, r := range routes() {
		c := d.connector(r)
		d.transfer(c, 2, 100_000, 100_000)
		c.close()
	}
	f()
	d.guest.Close()
	d.gone()
	d.leave()
}
