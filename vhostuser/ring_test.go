package vhostuser_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// stateConfig is the ring that most tests use.
var stateConfig = virtqtest.Config{Size: 64, EventIdx: true, Indirect: true}

// TestStyles starts, stops and starts again as each frontend does, then sets
// the driver up anew, as after a reboot, in the same connection.
func TestStyles(t *testing.T) {
	for _, style := range []vutest.Style{vutest.QEMU, vutest.UML, vutest.DPDK, vutest.CloudHypervisor} {
		t.Run(style.String(), func(t *testing.T) {
			b := newBench(t, style).up()
			b.echo(10)
			b.must(b.fe.Stop())
			if style != vutest.UML { // whose driver always starts from nothing
				for _, q := range b.guest.Queues {
					if q.Base != 10 {
						t.Errorf("queue %d stopped at %d, want 10", q.Index, q.Base)
					}
				}
				_, err := b.fe.Start(b.guest, wanted)
				b.must(err)
				b.echo(10)
				b.must(b.fe.Stop())
			}
			// The driver is loaded again: new rings, from index 0.
			next, err := vutest.NewGuest(b.guest.Memory, 2, stateConfig)
			b.must(err)
			defer next.Close()
			_, err = b.fe.Start(next, wanted)
			b.must(err)
			b.must(echo(next, 10))
			if lines := b.log.lines(); len(lines) != 0 {
				t.Errorf("log is not empty: %q", lines)
			}
		})
	}
}

// setup is one request of a start.
type setup struct {
	name string
	do   func(b *bench, q *vutest.Queue) error
}

func setups(want uint64) []setup {
	on := func(f func(*vutest.Frontend, *vutest.Queue) error) func(*bench, *vutest.Queue) error {
		return func(b *bench, q *vutest.Queue) error { return f(b.fe, q) }
	}
	return []setup{
		{"NUM", on((*vutest.Frontend).SetNum)},
		{"BASE", on((*vutest.Frontend).SetBase)},
		{"ADDR", on((*vutest.Frontend).SetAddr)},
		{"KICK", on((*vutest.Frontend).SetKick)},
		{"ENABLE", on((*vutest.Frontend).EnableQueue)},
		{"CALL", on((*vutest.Frontend).SetCall)},
		{"FEATURES", func(b *bench, q *vutest.Queue) error {
			if q.Index != 0 {
				return nil
			}
			return b.fe.SetFeatures(b.fe.Offered & (want | wire.FeatureProtocol))
		}},
		{"MEMORY", func(b *bench, q *vutest.Queue) error {
			if q.Index != 0 {
				return nil
			}
			return b.fe.SetMemTable(b.guest.Memory)
		}},
	}
}

// TestOrders: rings whose requests come in any order work, with buffers that
// were filled before and are never announced by a kick.
func TestOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := newBench(t, vutest.QEMU)
	b.disconnect()
	for i := range 300 {
		order := setups(wanted)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var names []string
		for _, s := range order {
			names = append(names, s.name)
		}
		name := strings.Join(names, " ")
		g, err := vutest.NewGuest(b.guest.Memory, 2, virtqtest.Config{Size: 16, EventIdx: true, FirstIndex: uint16(i * 7919)})
		if err != nil { // the allocator never takes back
			b.guest = newGuest(t, stateConfig)
			g, err = vutest.NewGuest(b.guest.Memory, 2, virtqtest.Config{Size: 16, EventIdx: true})
			b.must(err)
		}
		p, err := newPump(g)
		b.must(err)
		b.must(p.fill())
		b.must(p.send(pumpBatch))

		b.connect(vutest.QEMU)
		b.must(b.fe.Connect())
		// One ring after the other, or both step by step.
		rings := [][]*vutest.Queue{g.Queues}
		if i%2 == 0 {
			rings = [][]*vutest.Queue{g.Queues[:1], g.Queues[1:]}
		}
		for life := range 3 { // with and without a stop in between
			for _, qs := range rings {
				for _, s := range order {
					for _, q := range qs {
						if err := s.do(b, q); err != nil {
							t.Fatalf("%s: life %d: %s of queue %d: %v", name, life, s.name, q.Index, err)
						}
					}
				}
			}
			if err := p.drain(); err != nil {
				t.Fatalf("%s: life %d: %v", name, life, err)
			}
			if life == 0 {
				for _, q := range g.Queues {
					b.must(b.fe.GetBase(q))
				}
				b.must(p.fill())
				b.must(p.send(pumpBatch))
			}
		}
		b.disconnect()
		g.Close()
	}
}

// TestNoProtocolFeatures: a frontend that does not know them cannot enable rings.
func TestNoProtocolFeatures(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.SetFeatures(wanted))
	b.must(b.fe.SetMemTable(b.guest.Memory))
	for _, q := range b.guest.Queues {
		for _, f := range []func(*vutest.Queue) error{b.fe.SetNum, b.fe.SetBase, b.fe.SetAddr, b.fe.SetKick, b.fe.SetCall} {
			b.must(f(q))
		}
	}
	b.echo(3)
}

// TestNoCall: a driver that polls is served and never signalled.
func TestNoCall(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	none := wire.VringNoFD
	for i := range b.guest.Queues {
		v := none | wire.U64(i)
		b.must(b.fe.Do(wire.SetVringCall, &v))
		b.guest.Queues[i].WaitCall(0)
	}
	p, err := newPump(b.guest)
	b.must(err)
	b.must(p.run(100))
	if b.guest.Queues[0].WaitCall(0) {
		t.Error("call on a descriptor that was taken back")
	}
}

// TestPollMode: without a kick descriptor the device looks by itself.
func TestPollMode(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	for i := range b.guest.Queues {
		v := wire.VringNoFD | wire.U64(i)
		b.must(b.fe.Do(wire.SetVringKick, &v))
	}
	b.echo(3)
}

// TestCallAtStart: the driver of a ring that starts is called, and need not be
// told of a completion for that; the one who had the ring before may have owed
// it a call.
func TestCallAtStart(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	for i, q := range b.guest.Queues {
		if !q.WaitCall(patience) {
			t.Errorf("ring %d: no call", i)
		}
	}
}

// TestCallResent: a call descriptor that comes on a running ring is signalled at
// once, for completions that the one before may have swallowed.
func TestCallResent(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	q := b.guest.Queues[0]
	q.WaitCall(0)
	b.must(b.fe.SetCall(q))
	if !q.WaitCall(patience) {
		t.Error("no call")
	}
	b.must(b.fe.GetBase(q))
	b.must(b.fe.SetCall(q))
	if q.WaitCall(20 * time.Millisecond) {
		t.Error("call on a stopped ring")
	}
}

// TestDisabled: nothing passes a disabled transmit ring, but it is drained. What
// is in the ring when it is enabled needs no further kick.
func TestDisabled(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.up()
	for _, q := range b.guest.Queues {
		b.must(b.fe.DisableQueue(q))
	}
	p, err := newPump(b.guest)
	b.must(err)
	b.must(p.fill())
	b.must(p.send(3))
	b.must(b.guest.Queues[1].ForceKick())
	for range 3 {
		if _, err := b.guest.Queues[1].WaitUsed(patience); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, _ := b.guest.Queues[0].Reap(); ok {
		t.Error("frame passed disabled rings")
	}
	p.out = 0
	for _, q := range b.guest.Queues {
		b.must(b.fe.EnableQueue(q))
	}
	b.must(p.send(3))
	b.must(p.drain())
}

// TestIndices: the index after many frames is that of the driver, and the ring
// goes on there, modulo 2^16; a fresh ring starts from 0 although the frontend
// says otherwise.
func TestIndices(t *testing.T) {
	const frames = 70000
	b := newBench(t, vutest.QEMU).up()
	p, err := newPump(b.guest)
	b.must(err)
	b.must(p.run(frames))
	b.must(b.fe.Stop())
	rx, tx := b.guest.Queues[0], b.guest.Queues[1]
	if rx.Base != frames&0xffff || tx.Base != frames&0xffff {
		t.Errorf("stopped at %d and %d, want %d", rx.Base, tx.Base, frames&0xffff)
	}
	_, err = b.fe.Start(b.guest, wanted)
	b.must(err)
	b.must(p.run(100))
	b.must(b.fe.Stop())

	next, err := vutest.NewGuest(b.guest.Memory, 2, stateConfig)
	b.must(err)
	defer next.Close()
	for _, q := range next.Queues {
		q.Base = rx.Base // a frontend that did not notice
	}
	_, err = b.fe.Start(next, wanted)
	b.must(err)
	b.must(echo(next, 10))
}

// TestBaseBeforeStart: a ring that never ran stops at the index it was given.
func TestBaseBeforeStart(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	q := b.guest.Queues[1]
	q.Base = 4711
	b.must(b.fe.SetBase(q))
	q.Base = 0
	b.must(b.fe.GetBase(q))
	if q.Base != 4711 {
		t.Errorf("index %d, want 4711", q.Base)
	}
}

// TestStatusZero: QEMU before 8.1 resets the status first and asks for the
// indices afterwards.
func TestStatusZero(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	b.echo(7)
	b.must(b.fe.Do(wire.SetStatus, u64(0)))
	b.dev.calls()
	for _, q := range b.guest.Queues {
		b.must(b.fe.GetBase(q))
		if q.Base != 7 {
			t.Errorf("queue %d stopped at %d, want 7", q.Index, q.Base)
		}
	}
	if c := b.dev.calls(); len(c) != 0 {
		t.Errorf("rings were still running: %q", c)
	}
	_, err := b.fe.Start(b.guest, wanted)
	b.must(err)
	b.echo(7)
}

// TestResetDevice: a reset leaves nothing running, and a start after it works.
func TestResetDevice(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	b.echo(3)
	b.dev.calls()
	b.must(b.fe.Do(wire.ResetDevice, nil))
	if diff := cmp.Diff([]string{"stop 0", "stop 1", "reset"}, b.dev.calls()); diff != "" {
		t.Error(diff)
	}
	next, err := vutest.NewGuest(b.guest.Memory, 2, stateConfig)
	b.must(err)
	defer next.Close()
	_, err = b.fe.Start(next, wanted)
	b.must(err)
	if got := b.dev.calls(); !strings.HasPrefix(got[0], "features") {
		t.Errorf("calls %q, want the features first", got)
	}
	b.must(echo(next, 3))
}

// TestRestartAbruptly: the backend is gone without a word and another one gets
// the same rings, with receive buffers that are never kicked again and an index
// that is out of date.
func TestRestartAbruptly(t *testing.T) { restartAbruptly(newBench(t, vutest.QEMU)) }

func restartAbruptly(b *bench) {
	p, err := newPump(b.guest)
	b.must(err)
	for round := range 20 {
		b.up()
		b.must(p.run(100 + round))
		b.must(p.fill())
		b.disconnect()
		b.must(p.send(1))
		b.connect(vutest.QEMU)
	}
}

// TestUnusedRing: a ring whose table is at address 0 is not started, and does
// not keep others from it.
func TestUnusedRing(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	b.must(b.fe.SetFeatures(b.fe.Offered &^ wire.FeatureLogAll))
	b.must(b.fe.SetMemTable(b.guest.Memory))
	b.dev.calls()
	for i, q := range b.guest.Queues {
		b.must(b.fe.SetNum(q))
		a := q.Addr()
		if i == 0 {
			a = wire.VringAddr{}
		}
		b.must(b.fe.Do(wire.SetVringAddr, &a))
		b.must(b.fe.SetKick(q))
		b.must(b.fe.EnableQueue(q))
	}
	if diff := cmp.Diff([]string{"start 1", "enable 1 true"}, b.dev.calls()); diff != "" {
		t.Error(diff)
	}
}

// TestUnderTraffic sends requests that must not disturb running rings while
// frames pass them.
func TestUnderTraffic(t *testing.T) {
	extra, err := vutest.NewMemory(vutest.Span{GuestAddr: 1 << 40, Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	for name, disturb := range map[string]func(*bench) error{
		"features": func(b *bench) error {
			return b.fe.SetFeatures(b.fe.Offered & (wanted | wire.FeatureProtocol))
		},
		"call":         func(b *bench) error { return b.fe.SetCall(b.guest.Queues[0]) },
		"kick":         func(b *bench) error { return b.fe.SetKick(b.guest.Queues[1]) },
		"addr":         func(b *bench) error { return b.fe.SetAddr(b.guest.Queues[1]) },
		"base":         func(b *bench) error { return b.fe.SetBase(b.guest.Queues[0]) },
		"enable":       func(b *bench) error { return b.fe.EnableQueue(b.guest.Queues[0]) },
		"memory table": func(b *bench) error { return b.fe.SetMemTable(b.guest.Memory) },
		"memory region": func(b *bench) error {
			if err := b.fe.AddMemRegion(extra, 0); err != nil {
				return err
			}
			return b.fe.RemMemRegion(extra, 0)
		},
		"pause": func(b *bench) error { // as DPDK does
			for _, f := range []func(*vutest.Queue) error{b.fe.DisableQueue, b.fe.EnableQueue} {
				if err := f(b.guest.Queues[0]); err != nil {
					return err
				}
				if err := b.fe.SetMemTable(b.guest.Memory); err != nil {
					return err
				}
			}
			return nil
		},
		"stop and start": func(b *bench) error {
			for _, q := range b.guest.Queues {
				for _, f := range []func(*vutest.Queue) error{b.fe.GetBase, b.fe.SetBase, b.fe.SetKick, b.fe.SetCall} {
					if err := f(q); err != nil {
						return err
					}
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, vutest.QEMU).up()
			p, err := newPump(b.guest)
			b.must(err)
			done := make(chan error, 1)
			go func() { done <- p.run(8000) }()
			for n := 0; ; n++ {
				select {
				case err := <-done:
					if err != nil {
						t.Fatalf("after %d requests: %v", n, err)
					}
					return
				default:
				}
				b.must(disturb(b))
			}
		})
	}
}

// TestRemnant: UML's driver disables its rings and frees their memory. Nothing
// that follows may touch them, or start them again, before they are set up.
func TestRemnant(t *testing.T) {
	b := newBench(t, vutest.UML).up()
	b.echo(5)
	b.must(b.fe.Stop())
	freed := make([][]byte, 0, 2)
	for _, q := range b.guest.Queues {
		desc, _, _ := q.Ring().Addrs()
		mem := b.guest.Memory.Bytes(desc, 64*16+4096) // table, rings and more
		for i := range mem {
			mem[i] = 0xa5
		}
		freed = append(freed, mem)
	}
	b.dev.calls()
	b.must(b.fe.SetFeatures(b.fe.Offered & (featureVersion1 | wire.FeatureProtocol)))
	b.must(b.fe.SetMemTable(b.guest.Memory))
	for _, q := range b.guest.Queues {
		b.must(b.fe.SetCall(q))
		b.must(b.fe.SetNum(q))
		b.must(b.fe.SetBase(q))
		b.must(b.fe.EnableQueue(q))
	}
	if i := slices.IndexFunc(b.dev.calls(), func(c string) bool { return strings.HasPrefix(c, "start") }); i >= 0 {
		t.Error("a remnant was started")
	}
	for _, mem := range freed {
		if i := slices.IndexFunc(mem, func(c byte) bool { return c != 0xa5 }); i >= 0 {
			t.Errorf("memory of a remnant was written at offset %d", i)
		}
	}
}

// TestBrokenRing: the ring stops, the frontend is told, one line is logged, and
// the other ring and later lives of this one are not affected.
func TestBrokenRing(t *testing.T) {
	for _, f := range virtqtest.Faults() {
		if f.NoIndirect {
			continue
		}
		t.Run(f.Name, func(t *testing.T) { brokenRing(newBench(t, vutest.QEMU), f) })
	}
}

func brokenRing(b *bench, f virtqtest.Fault) {
	t := b.t
	b.dev.with(func() { b.dev.drop = true })
	b.up()
	tx := b.guest.Queues[1]
	b.must(f.Apply(tx.Driver, false))
	b.must(tx.ForceKick())
	if !tx.WaitErr(patience) {
		t.Fatal("error descriptor was not signalled")
	}
	_, err := b.fe.GetU64(wire.GetFeatures)
	b.must(err)
	if lines := b.log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "ring=1") {
		t.Errorf("log: %q", lines)
	}
	calls := b.dev.calls()
	if !slices.Contains(calls, "stop 1") || slices.Contains(calls, "stop 0") {
		t.Errorf("calls: %q", calls)
	}
	b.must(b.fe.SetMemTable(b.guest.Memory))
	if calls := b.dev.calls(); slices.Contains(calls, "start 1") {
		t.Errorf("broken ring was started: %q", calls)
	}
	b.must(b.fe.Stop())
	next, err := vutest.NewGuest(b.guest.Memory, 2, b.guest.Queues[0].Config())
	b.must(err)
	defer next.Close()
	b.dev.with(func() { b.dev.drop = false })
	_, err = b.fe.Start(next, b.want)
	b.must(err)
	b.must(echo(next, 3))
}

// TestRingOutside: a ring that lies outside of the memory is reported once and
// started when the memory comes.
func TestRingOutside(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	far, err := vutest.NewMemory(vutest.Span{GuestAddr: 1 << 41, Size: 1 << 20})
	b.must(err)
	defer far.Close()
	g, err := vutest.NewGuest(far, 2, stateConfig)
	b.must(err)
	defer g.Close()
	b.must(b.fe.SetMemTable(b.guest.Memory))
	b.must(b.fe.SetFeatures(b.fe.Offered & (wanted | wire.FeatureProtocol)))
	for _, q := range g.Queues {
		for _, f := range []func(*vutest.Queue) error{b.fe.SetNum, b.fe.SetAddr, b.fe.SetKick, b.fe.SetCall, b.fe.EnableQueue} {
			b.must(f(q))
		}
	}
	lines := b.log.lines()
	if len(lines) != 2 || !strings.Contains(fmt.Sprint(lines), "cannot be started") {
		t.Errorf("log: %q", lines)
	}
	b.must(b.fe.AddMemRegion(far, 0))
	b.must(echo(g, 3))
}
