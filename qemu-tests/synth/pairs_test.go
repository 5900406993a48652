package synth_test

import (
	"io"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
)

// startPairs starts a backend and a guest with n queue pairs.
func startPairs(t *testing.T, n int) ([]*synth.Guest, []*recorder) {
	t.Helper()
	cfgs, recorders := make([]synth.Config, n), make([]*recorder, n)
	for i := range cfgs {
		recorders[i] = newRecorder()
		cfgs[i] = synth.Config{Addr: guestAddr, Gateway: gateway, Handler: recorders[i]}
	}
	pairs, err := synth.NewPairs(startDaemon(t, cfgs[0].Style, 0), cfgs...)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, pairs[0])
	return pairs, recorders
}

// sinkAll accepts connections and checks what they bring, until the listener is
// closed.
func sinkAll(t *testing.T, check bool) netip.AddrPort {
	l, to := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if !check {
					_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 1<<20))
					return
				}
				if _, err := checkPattern(c); err != nil {
					t.Error(err)
				}
			}()
		}
	}()
	return to
}

// sendOnPairs sends bytes on each of n pairs at a time, and returns how long that
// took.
func sendOnPairs(t *testing.T, n, bytes int, check bool) time.Duration {
	t.Helper()
	pairs, recorders := startPairs(t, n)
	to := sinkAll(t, check)
	conns := make([]*synth.Conn, n)
	for i, g := range pairs {
		conns[i] = connect(t, g, recorders[i], to)
	}
	var all sync.WaitGroup
	begin := time.Now()
	for i, g := range pairs {
		all.Go(func() {
			g.Send(conns[i], uint64(bytes))
			g.End(conns[i])
			ended := func() bool { return recorders[i].sum&(synth.Closed|synth.Reset) != 0 }
			if err := g.Run(limit, ended); err != nil || recorders[i].sum&synth.Reset != 0 {
				t.Errorf("pair %d: %v, events %b, counters %+v", i, err, recorders[i].sum, g.Counters)
			}
		})
	}
	all.Wait()
	return time.Since(begin)
}

// TestPairs: streams on several queue pairs at a time, each with a worker.
func TestPairs(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		sendOnPairs(t, n, 8<<20, true)
	}
}

// TestPairsRate says what a second pair brings. It is a measurement: -v shows it.
func TestPairsRate(t *testing.T) {
	if !testing.Verbose() {
		t.Skip("SKIP: a measurement, for -v")
	}
	const bytes = 2 << 30
	one := sendOnPairs(t, 1, bytes, false)
	two := sendOnPairs(t, 2, bytes, false)
	rate := func(n int, d time.Duration) float64 { return float64(n*bytes) * 8e-9 / d.Seconds() }
	t.Logf("one pair %.1f Gbit/s, two pairs %.1f Gbit/s: %.2f times", rate(1, one), rate(2, two), rate(2, two)/rate(1, one))
}
