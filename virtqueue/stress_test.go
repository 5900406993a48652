package virtqueue_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// link is two ends of a ring in two goroutines, with the notifications between
// them. A notification that is lost stops both, and the test with them.
type link struct {
	drv        *virtqtest.Driver
	q          *virtqueue.Queue
	writable   bool
	chains     int
	kick, call chan struct{} // as eventfds: they hold one signal
	fail       chan error
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *link) wait(c chan struct{}, who string) error {
	select {
	case <-c:
		return nil
	case <-time.After(20 * time.Second):
		return fmt.Errorf("%s waits for a notification that does not come", who)
	}
}

// Both sides work at the same time on the same memory, sleep when there is
// nothing to do, and each checks the bytes of the other. Under the race detector
// this also shows that the indices order every access to ring and buffers.
func TestBothSidesAtOnce(t *testing.T) {
	chains := 20_000
	if testing.Short() {
		chains = 2_000
	}
	for _, eventIdx := range []bool{false, true} {
		for _, indirect := range []bool{false, true} {
			cfg := virtqtest.Config{Size: 16, EventIdx: eventIdx, Indirect: indirect, FirstIndex: 0xff00}
			t.Run(fmt.Sprintf("eventIdx=%v/indirect=%v", eventIdx, indirect), func(t *testing.T) {
				formats(t, cfg, func(t *testing.T, cfg virtqtest.Config) {
					if cfg.Packed {
						cfg.Size = 13
					}
					directions(t, func(t *testing.T, writable bool) { bothSides(t, cfg, writable, chains) })
				})
			})
		}
	}
}

func bothSides(t *testing.T, cfg virtqtest.Config, writable bool, chains int) {
	drv, q := pair(t, cfg, writable)
	l := &link{
		drv: drv, q: q, writable: writable, chains: chains,
		kick: make(chan struct{}, 1), call: make(chan struct{}, 1), fail: make(chan error, 2),
	}
	go func() { l.fail <- l.device() }()
	go func() { l.fail <- l.driver() }()
	for range 2 {
		if err := <-l.fail; err != nil {
			t.Fatal(err)
		}
	}
}

// device answers chain number n with the number, or checks that the number is
// in it.
func (l *link) device() error {
	vecs := make([]iov.Vec, 0, 8)
	rng := rand.New(rand.NewPCG(1, 2))
	var word [8]byte
	for n := 0; n < l.chains; {
		l.q.SuppressKicks()
		for budget := 1 + rng.IntN(20); budget > 0; budget-- {
			v, token, err := l.q.Take(vecs[:0])
			if errors.Is(err, virtqueue.ErrEmpty) {
				break
			} else if err != nil {
				return err
			}
			if rng.IntN(8) == 0 {
				l.q.Untake(1)
				if v, token, err = l.q.Take(vecs[:0]); err != nil {
					return fmt.Errorf("after Untake: %w", err)
				}
			}
			if l.writable {
				binary.LittleEndian.PutUint64(word[:], uint64(n))
				l.q.Return(token, uint32(iov.CopyIn(v, 0, word[:])))
			} else {
				iov.CopyOut(word[:], v, 0)
				if got := binary.LittleEndian.Uint64(word[:]); got != uint64(n) {
					return fmt.Errorf("device read %d, want %d", got, n)
				}
				l.q.Return(token, 0)
			}
			n++
		}
		if l.q.Publish() {
			signal(l.call)
		}
		if n < l.chains && !l.q.ArmKicks() {
			if err := l.wait(l.kick, "device"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *link) driver() error {
	mem := l.drv.Memory()
	buffer := func(n int) []virtqtest.Buffer {
		addr := uint64(highAddr + 8*(n%64))
		return []virtqtest.Buffer{{Addr: addr, Len: 3}, {Addr: addr + 3, Len: 5}}
	}
	added, reaped := 0, 0
	for reaped < l.chains {
		for added < l.chains {
			b := buffer(added)
			r, w := b, []virtqtest.Buffer(nil)
			if l.writable {
				r, w = w, r
			} else {
				binary.LittleEndian.PutUint64(mem.Bytes(b[0].Addr, 8), uint64(added))
			}
			if _, err := l.drv.Add(r, w); errors.Is(err, virtqtest.ErrFull) {
				break
			} else if err != nil {
				return err
			}
			added++
		}
		if l.drv.Kick() {
			signal(l.kick)
		}
		if err := l.reap(&reaped, buffer); err != nil {
			return err
		}
		more := false
		if reaped%3 == 0 {
			more = l.drv.EnableCallsDelayed()
		} else {
			more = l.drv.EnableCalls()
		}
		// Room for more chains is work to do, too.
		if reaped < l.chains && !more && (added == l.chains || l.drv.Free() < 2) {
			if err := l.wait(l.call, "driver"); err != nil {
				return err
			}
		}
		l.drv.DisableCalls()
	}
	return nil
}

func (l *link) reap(reaped *int, buffer func(int) []virtqtest.Buffer) error {
	for {
		u, ok, err := l.drv.Reap()
		if err != nil || !ok {
			return err
		}
		if l.writable {
			got := binary.LittleEndian.Uint64(l.drv.Memory().Bytes(buffer(*reaped)[0].Addr, 8))
			if u.Len != 8 || got != uint64(*reaped) {
				return fmt.Errorf("driver got %d bytes, %d; want 8, %d", u.Len, got, *reaped)
			}
		}
		*reaped++
	}
}

// A guest rewrites descriptors while the device reads them. Whatever it hits,
// what comes out lies in guest memory, is bounded, and nothing panics.
func TestScribble(t *testing.T) {
	formats(t, virtqtest.Config{Size: 32, Indirect: true, EventIdx: true}, func(t *testing.T, cfg virtqtest.Config) {
		for round := range 30 {
			testScribble(t, cfg, round)
		}
	})
}

func testScribble(t *testing.T, cfg virtqtest.Config, round int) {
	const chains = 500
	drv, q := pair(t, cfg, round%2 == 0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(uint64(round), 1))
		for {
			select {
			case <-stop:
				return
			default:
				if cfg.Packed {
					drv.Packed().Scribble(rng)
				} else {
					drv.Ring().Scribble(rng)
				}
				drv.ScribbleTables(rng)
			}
		}
	}()
	bufs := []virtqtest.Buffer{{Addr: lowAddr, Len: 64}, {Addr: highAddr - 8, Len: 16}, {Addr: highAddr, Len: 64}}
	taken := scribbled(t, drv, q, round%2 == 0, bufs, chains)
	close(stop)
	<-done
	if err := q.Err(); err != nil && !errors.Is(err, virtqueue.ErrBroken) {
		t.Errorf("round %d, %d chains taken: %v", round, taken, err)
	}
}

func scribbled(t *testing.T, drv *virtqtest.Driver, q *virtqueue.Queue, writable bool, bufs []virtqtest.Buffer, chains int) (taken int) {
	t.Helper()
	m := drv.Memory().Map()
	var vecs []iov.Vec
	for i := range chains {
		r, w := bufs[:1+i%3], []virtqtest.Buffer(nil)
		if writable {
			r, w = w, r
		}
		if _, err := drv.AddSplit(i%2*len(bufs[:1+i%3]), r, w); err != nil {
			t.Fatal(err)
		}
		drv.Publish()
		v, token, err := q.Take(vecs[:0])
		vecs = v
		if errors.Is(err, virtqueue.ErrEmpty) { // dropped, or its flags were changed
			q.Publish()
			if _, ok, err := drv.Reap(); err != nil || !ok {
				return taken
			}
			continue
		} else if err != nil {
			return taken
		}
		if len(v) == 0 || len(v) > 2*q.Size() {
			t.Errorf("%d vectors", len(v))
		}
		for _, x := range v {
			guestAddr(t, m, x)
		}
		taken++
		q.Return(token, 0)
		q.Publish()
		if _, ok, err := drv.Reap(); err != nil || !ok { // its own doing, in a packed ring
			return taken
		}
	}
	return taken
}
