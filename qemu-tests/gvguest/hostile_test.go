package gvguest_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// TestFaults breaks each ring in every way there is: that ring stops, the
// frontend is told, there is one line in the log and one count, and the next
// guest is served.
func TestFaults(t *testing.T) {
	for _, f := range virtqtest.Faults() {
		for queue, name := range []string{"receive", "transmit"} {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				s := linuxSetup
				if f.NoIndirect {
					s.features &^= featureIndirect
				}
				d := newDaemon(t, s)
				d.memory()
				q := d.vm.Queues[queue]
				d.must(f.Apply(q.Driver, queue == 0))
				d.connect(vutest.QEMU)
				if _, err := d.fe.Start(d.vm, s.features); err != nil {
					t.Errorf("start: %v", err)
				}
				d.must(q.ForceKick())
				if !q.WaitErr(patience) {
					t.Error("the frontend was not told")
				}
				d.leave()
				c := d.worker.Snapshot().Counters
				if c.RxBroken+c.TxBroken != 1 || (queue == 0) != (c.RxBroken == 1) {
					t.Errorf("%d receive and %d transmit rings counted as broken", c.RxBroken, c.TxBroken)
				}
				if lines := d.log.take("broken"); len(lines) != 1 {
					t.Errorf("log: %q", lines)
				}
				d.memory()
				d.connect(vutest.QEMU)
				_, err := d.fe.Start(d.vm, s.features)
				d.must(err)
				d.ask()
			})
		}
	}
}

// ask sends a request to the gateway, by a driver that keeps the rules, and
// waits for what comes.
func (d *daemon) ask() {
	d.Helper()
	rx, tx := d.vm.Queues[0], d.vm.Queues[1]
	frame := arpRequest()
	addr, err := d.vm.Memory.Alloc(2048+uint64(len(frame)), 64)
	d.must(err)
	copy(d.vm.Memory.Bytes(addr+2048, uint64(len(frame))), frame)
	_, err = rx.Add(nil, []virtqtest.Buffer{{Addr: addr, Len: 2048}})
	d.must(err)
	d.must(rx.Kick())
	_, err = tx.Add([]virtqtest.Buffer{{Addr: addr + 2048, Len: uint32(len(frame))}}, nil)
	d.must(err)
	d.must(tx.Kick())
	_, err = tx.WaitUsed(patience)
	d.must(err)
	_, err = rx.WaitUsed(patience)
	d.must(err)
}

// TestRunts: buffers that are too small for what belongs into them cost their
// driver frames, and nobody else anything.
func TestRunts(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			d := newDaemon(t, s)
			d.memory()
			d.connect(vutest.QEMU)
			_, err := d.fe.Start(d.vm, s.features)
			d.must(err)
			rx, tx := d.vm.Queues[0], d.vm.Queues[1]
			for n := uint32(1); n < 60; n++ {
				addr, err := d.vm.Memory.Alloc(64, 1)
				d.must(err)
				for _, add := range []func() (uint16, error){
					func() (uint16, error) { return rx.Add(nil, []virtqtest.Buffer{{Addr: addr, Len: n}}) },
					func() (uint16, error) { return tx.Add([]virtqtest.Buffer{{Addr: addr, Len: n}}, nil) },
				} {
					if _, err := add(); err != nil && n == 1 {
						t.Fatal(err)
					}
				}
				d.must(rx.ForceKick())
				d.must(tx.Kick())
				for {
					if _, ok, err := rx.Reap(); err != nil {
						t.Fatalf("receive ring: %v", err)
					} else if !ok {
						break
					}
				}
				if _, err := tx.WaitUsed(patience); err != nil {
					t.Fatalf("transmit ring: %v", err)
				}
			}
			if got := d.worker.Snapshot().Counters.Dropped[header.TooShort]; got == 0 {
				t.Error("no frame was counted as too short")
			}
			d.leave()
			d.proveAlive(func() {})
		})
	}
}

// TestScribble changes descriptors while the worker reads them, under frames
// that are all right otherwise.
func TestScribble(t *testing.T) {
	rounds := max(scaled(40), 6)
	d := newDaemon(t, linuxSetup)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	broken := netstack.Counters{}
	for round := range rounds {
		d.memory()
		d.connect(styles()[round%len(styles())])
		_, err := d.fe.Start(d.vm, d.setup.features)
		d.must(err)
		d.scribble(rng.Uint64())
		d.leave()
		if lines := d.log.take("ring is broken"); len(lines) > 2 {
			t.Errorf("log: %q", lines)
		}
		broken = d.worker.Snapshot().Counters
	}
	t.Logf("of %d pairs of rings, %d receive and %d transmit rings broke", rounds, broken.RxBroken, broken.TxBroken)
	if broken.RxBroken+broken.TxBroken == 0 {
		t.Error("no ring broke")
	}
	d.proveAlive(func() {})
}

// scribble drives the rings with requests that are answered, while
// others change the descriptors.
func (d *daemon) scribble(seed uint64) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i, q := range d.vm.Queues {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					q.Ring().Scribble(rng)
					if d.setup.features&featureIndirect != 0 {
						q.ScribbleTables(rng)
					}
					time.Sleep(time.Duration(rng.IntN(50)) * time.Microsecond)
				}
			}
		})
	}
	for i := range 2 {
		all.Go(func() { _ = d.flood(d.vm.Queues[i], i == 0, stop) })
	}
	time.Sleep(60 * time.Millisecond)
	close(stop)
	all.Wait()
}

// flood gives chains of several buffers to one ring for as long as it takes them.
func (d *daemon) flood(q *vutest.Queue, writable bool, stop <-chan struct{}) error {
	const pieces, piece = 4, 512
	frame := arpRequest()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		var bufs []virtqtest.Buffer
		for i := range pieces {
			addr := uint64(1<<32) + uint64(q.Index)<<19 + uint64(i)*piece
			if !writable && i*piece < len(frame) {
				copy(d.vm.Memory.Bytes(addr, piece), frame[i*piece:])
			}
			bufs = append(bufs, virtqtest.Buffer{Addr: addr, Len: piece})
		}
		var err error
		if writable {
			_, err = q.Add(nil, bufs)
		} else {
			_, err = q.Add(bufs, nil)
		}
		if err == nil {
			if err = q.Kick(); err != nil {
				return err
			}
			continue
		}
		for {
			if _, ok, err := q.Reap(); err != nil {
				return fmt.Errorf("queue %d: %w", q.Index, err)
			} else if !ok {
				break
			}
		}
		time.Sleep(20 * time.Microsecond)
	}
}

// arpRequest is a frame that the worker answers: who has the gateway's address?
func arpRequest() []byte {
	f := make([]byte, header.VnetLen+60)
	e := f[header.VnetLen:]
	header.PutEth(e, header.Broadcast, header.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}, header.EtherTypeARP)
	a := e[header.EthLen:]
	copy(a, []byte{0, 1, 8, 0, 6, 4, 0, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56})
	guest, gateway := guest4.Addr().As4(), gateway4.As4()
	copy(a[14:], guest[:])
	copy(a[24:], gateway[:])
	return f
}
