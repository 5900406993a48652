package gvguest_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// vanishing is a guest's memory that is gone after some touches of its rings.
type vanishing struct {
	left int
	gone []byte // no access
	read byte
}

func (v *vanishing) touch() {
	if v.left--; v.left == 0 {
		v.read = v.gone[0] // faults
	}
}

type vanishingRx struct {
	netstack.RxRing
	v *vanishing
}

func (r vanishingRx) Take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	r.v.touch()
	return r.RxRing.Take(dst)
}
func (r vanishingRx) Return(token, n uint32) { r.v.touch(); r.RxRing.Return(token, n) }
func (r vanishingRx) Publish() bool          { r.v.touch(); return r.RxRing.Publish() }
func (r vanishingRx) ArmKicks() bool         { r.v.touch(); return r.RxRing.ArmKicks() }

type vanishingTx struct {
	netstack.TxRing
	v *vanishing
}

// Take also lets the memory of a frame be gone: the headers can be read, and the
// rest cannot.
func (r vanishingTx) Take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	r.v.touch()
	at := len(dst)
	vecs, token, err := r.TxRing.Take(dst)
	if r.v.left == 1 && err == nil && len(vecs) > at+1 {
		r.v.left = 0
		last := &vecs[len(vecs)-1]
		*last = iov.Of(r.v.gone[:last.Len])
	}
	return vecs, token, err
}
func (r vanishingTx) Return(token, n uint32) { r.v.touch(); r.TxRing.Return(token, n) }
func (r vanishingTx) Publish() bool          { r.v.touch(); return r.TxRing.Publish() }
func (r vanishingTx) ArmKicks() bool         { r.v.touch(); return r.TxRing.ArmKicks() }

// TestMemoryGone lets the guest's memory vanish at random moments under traffic,
// and come back: both rings are reported, nothing spins meanwhile, and in the end
// every byte is there. What the guest was not told of goes over the rings again.
func TestMemoryGone(t *testing.T) {
	gone, err := syscall.Mmap(-1, 0, 1<<17, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(gone) }()
	all := setups()
	if testing.Short() {
		all = all[:2]
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			broken := make(chan error, 100)
			b := newBenchWith(t, s, func(_ bool, err error) { broken <- err }).boot()
			rounds := uint64(max(scaled(24), 6))
			b.trafficOf(scaled(1<<20), func() {
				for range rounds {
					v := &vanishing{left: 1 + rand.IntN(300), gone: gone}
					b.goOn(v)
					for range 2 {
						select {
						case err := <-broken:
							if err != netstack.ErrGuestMemory {
								t.Errorf("told %v, want %v", err, netstack.ErrGuestMemory)
							}
						case <-time.After(patience):
							t.Error("the owner of the worker was not told")
							return
						}
					}
					if n := b.turnsIn(20 * time.Millisecond); n > 100 {
						t.Errorf("%d turns without rings", n)
					}
					b.goOn(&vanishing{})
					time.Sleep(20 * time.Millisecond)
				}
			})
			if n := b.worker.Snapshot().Counters.Faults; n != rounds {
				t.Errorf("%d faults, want %d", n, rounds)
			}
		})
	}
}

// goOn gives the worker the guest's rings again, from the first buffers that the
// guest was not given back.
func (b *bench) goOn(v *vanishing) {
	b.wrap = func(rx netstack.RxRing, tx netstack.TxRing) (netstack.RxRing, netstack.TxRing) {
		return vanishingRx{rx, v}, vanishingTx{tx, v}
	}
	b.worker.Park(func() {
		b.worker.DetachRx()
		b.worker.DetachTx()
		_, rxAt := b.rings.Rx.Ring().Used()
		_, txAt := b.rings.Tx.Ring().Used()
		b.attachAt(uint32(rxAt), uint32(txAt))
	})
}
