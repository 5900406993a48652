package vhostuser_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
)

// TestVanish: frontends that go away at any moment, with traffic or without,
// leave nothing behind.
func TestVanish(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	rng := rand.New(rand.NewPCG(3, 4))
	b := newBench(t, vutest.QEMU)
	b.disconnect()
	before := measure(t)
	for round := range rounds {
		g := b.guest
		if round%50 == 0 { // rings are used up by neither side
			b.guest = newGuest(t, stateConfig)
			g = b.guest
			before = measure(t)
		}
		b.connect(vutest.Style(round % 4))
		cut := make(chan struct{})
		go func(fe *vutest.Frontend, steps int) {
			// In units that are about one request long.
			time.Sleep(time.Duration(steps) * 20 * time.Microsecond)
			fe.Close()
			close(cut)
		}(b.fe, rng.IntN(40))
		if b.fe.Connect() == nil {
			if _, err := b.fe.Start(g, wanted); err == nil {
				if p, err := newPump(g); err == nil {
					// Whatever the ring has been left with.
					_ = p.fill()
					_ = p.send(1)
				}
				_ = b.fe.Stop()
			}
		}
		<-cut
		b.disconnect()
		if round%50 == 49 {
			checkUsage(t, before)
		}
	}
}

// TestReconnects: connections that carry nothing cost nothing.
func TestReconnects(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 500
	}
	b := newBench(t, vutest.QEMU)
	b.disconnect()
	before := measure(t)
	for range rounds {
		b.connect(vutest.QEMU)
		b.disconnect()
	}
	checkUsage(t, before)
	if lines := b.log.lines(); len(lines) != 0 {
		t.Errorf("log: %q", lines)
	}
}
