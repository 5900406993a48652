package vhostuser_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// packedBench is newBench with a guest of packed rings, of a size that no split
// ring has.
func packedBench(t *testing.T, style vutest.Style, inOrder bool) *bench {
	t.Helper()
	b := newBench(t, style)
	b.guest = newGuest(t, packedConfig(inOrder))
	b.want |= featurePacked
	if inOrder {
		b.want |= featureInOrder
	}
	return b
}

func packedConfig(inOrder bool) virtqtest.Config {
	return virtqtest.Config{Size: 60, EventIdx: true, Indirect: true, Packed: true, InOrder: inOrder}
}

// TestPackedStyles is TestStyles for packed rings.
func TestPackedStyles(t *testing.T) {
	for _, style := range []vutest.Style{vutest.QEMU, vutest.UML, vutest.DPDK, vutest.CloudHypervisor} {
		for _, inOrder := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/in order %v", style, inOrder), func(t *testing.T) {
				b := packedBench(t, style, inOrder).up()
				b.echo(70)
				b.must(b.fe.Stop())
				if style != vutest.UML {
					for _, q := range b.guest.Queues {
						if q.Base != 0x000a000a { // second lap, wrap counter 0
							t.Errorf("queue %d stopped at %#x, want 0xa000a", q.Index, q.Base)
						}
					}
					_, err := b.fe.Start(b.guest, b.want)
					b.must(err)
					b.echo(70)
					b.must(b.fe.Stop())
				}
				// Another driver: new rings, and split ones for once.
				split, err := vutest.NewGuest(b.guest.Memory, 2, stateConfig)
				b.must(err)
				defer split.Close()
				_, err = b.fe.Start(split, wanted)
				b.must(err)
				b.must(echo(split, 10))
				b.must(b.fe.Stop())
				next, err := vutest.NewGuest(b.guest.Memory, 2, packedConfig(inOrder))
				b.must(err)
				defer next.Close()
				_, err = b.fe.Start(next, b.want)
				b.must(err)
				b.must(echo(next, 10))
				if lines := b.log.lines(); len(lines) != 0 {
					t.Errorf("log is not empty: %q", lines)
				}
			})
		}
	}
}

// TestPackedOrders: the requests come in any order, so sizes and indices that
// only packed rings have may come before it is known what the rings are.
func TestPackedOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	b := packedBench(t, vutest.QEMU, true)
	b.disconnect()
	for i := range 100 {
		order := setups(b.want)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		cfg := virtqtest.Config{Size: 17, EventIdx: true, Packed: true, InOrder: true, FirstIndex: uint16(i)}
		g, err := vutest.NewGuest(b.guest.Memory, 2, cfg)
		b.must(err)
		p, err := newPump(g)
		b.must(err)
		b.must(p.fill())
		b.must(p.send(pumpBatch))
		b.connect(vutest.QEMU)
		b.must(b.fe.Connect())
		for _, s := range order {
			for _, q := range g.Queues {
				if err := s.do(b, q); err != nil {
					t.Fatalf("%d: %s of queue %d: %v", i, s.name, q.Index, err)
				}
			}
		}
		if err := p.drain(); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		b.disconnect()
		g.Close()
	}
}

// TestPackedRestartAbruptly is TestRestartAbruptly for packed rings: QEMU tells
// the state of the last orderly stop, so it is found in the ring.
func TestPackedRestartAbruptly(t *testing.T) {
	for _, inOrder := range []bool{false, true} {
		t.Run(fmt.Sprintf("in order %v", inOrder), func(t *testing.T) {
			restartAbruptly(packedBench(t, vutest.QEMU, inOrder))
		})
	}
}

// TestPackedStateUnknown: where the ring does not say, the frontend's number
// counts.
func TestPackedStateUnknown(t *testing.T) {
	b := packedBench(t, vutest.QEMU, true)
	b.disconnect()
	b.guest = newGuest(t, virtqtest.Config{Size: 60, EventIdx: true, Packed: true, InOrder: true, FirstIndex: 7})
	b.want &^= featureIndirect
	// A slot written in a lap in which those around it were not.
	for _, q := range b.guest.Queues {
		ring := q.Packed()
		d := ring.Desc(20)
		d.Flags = virtqtest.FlagAvail | virtqtest.FlagUsed
		ring.SetDesc(20, d)
		d = ring.Desc(40)
		d.Flags = virtqtest.FlagAvail | virtqtest.FlagUsed
		ring.SetDesc(40, d)
	}
	p, err := newPump(b.guest)
	b.must(err)
	b.must(p.fill())
	b.must(p.send(1))
	c := b.guest.Queues[1].QueueConfig(false)
	if at, err := virtqueue.Resume(c); err == nil {
		t.Fatalf("the ring says %#x", at)
	}
	b.connect(vutest.QEMU)
	b.up()
	b.must(p.drain())
	if lines := b.log.lines(); len(lines) != 2 || !strings.Contains(lines[0], "where the frontend says") {
		t.Errorf("log: %q, want a warning for each ring", lines)
	}
}

// TestPackedNumbers: a split ring has neither such sizes nor such indices.
func TestPackedNumbers(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	for _, req := range []wire.Request{wire.SetVringNum, wire.SetVringBase} {
		if err := b.fe.DoAck(req, state(0, 0x80008000)); err == nil {
			t.Errorf("%v of a split ring was accepted", req)
		}
	}
	b = packedBench(t, vutest.QEMU, false).up()
	b.must(b.fe.DoAck(wire.SetVringNum, state(0, 59)))
	for _, num := range []uint32{0, 32769, 1 << 31} {
		if err := b.fe.DoAck(wire.SetVringNum, state(0, num)); err == nil {
			t.Errorf("packed ring of %d was accepted", num)
		}
	}
}

// TestPackedBrokenRing is TestBrokenRing for packed rings.
func TestPackedBrokenRing(t *testing.T) {
	for _, f := range virtqtest.PackedFaults() {
		if f.NoIndirect {
			continue
		}
		t.Run(f.Name, func(t *testing.T) { brokenRing(packedBench(t, vutest.QEMU, false), f) })
	}
}

// TestPackedAreas: each of the three parts must lie in guest memory.
func TestPackedAreas(t *testing.T) {
	for name, change := range map[string]func(*wire.VringAddr){
		"descriptor ring":          func(a *wire.VringAddr) { a.Desc = 1 << 50 },
		"driver event suppression": func(a *wire.VringAddr) { a.Avail = 1 << 50 },
		"device event suppression": func(a *wire.VringAddr) { a.Used = 1 << 50 },
		"is not aligned":           func(a *wire.VringAddr) { a.Used += 2 },
	} {
		b := packedBench(t, vutest.QEMU, false).up()
		a := b.guest.Queues[1].Addr()
		change(&a)
		b.must(b.fe.Do(wire.SetVringAddr, &a))
		if lines := fmt.Sprint(b.log.lines()); !strings.Contains(lines, name) {
			t.Errorf("log: %s, want %q", lines, name)
		}
		b.must(b.fe.SetAddr(b.guest.Queues[1]))
		b.echo(3)
	}
}
