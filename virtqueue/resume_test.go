package virtqueue_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// A ring in any state, with a device that returns chains in order, is resumed
// where the device was.
func TestResumeFromMemory(t *testing.T) {
	for _, tc := range []struct {
		name     string
		cfg      virtqtest.Config
		writable bool
		direct   bool // chains of several slots
	}{
		{"split", virtqtest.Config{}, false, true},
		{"receive", virtqtest.Config{Packed: true, Indirect: true}, true, false},
		{"transmit", virtqtest.Config{Packed: true, Indirect: true}, false, false},
		{"receive in order", virtqtest.Config{Packed: true, Indirect: true, InOrder: true}, true, false},
		{"receive in order, direct", virtqtest.Config{Packed: true, InOrder: true}, true, true},
		{"transmit in order", virtqtest.Config{Packed: true, Indirect: true, InOrder: true}, false, false},
		{"transmit in order, direct", virtqtest.Config{Packed: true, InOrder: true}, false, true},
		{"direct", virtqtest.Config{Packed: true}, false, true},
		{"receive direct", virtqtest.Config{Packed: true}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(60) {
				rng := rand.New(rand.NewPCG(seed, 3))
				cfg := tc.cfg
				cfg.Size = 1 + uint16(seed%20)
				if !cfg.Packed {
					cfg.Size = 16
				}
				cfg.FirstIndex = uint16(rng.IntN(int(4 * cfg.Size)))
				if cfg.FirstIndex < cfg.Size {
					cfg.FirstIndex = 0
				}
				drv, q := pair(t, cfg, tc.writable)
				for range 300 {
					step(t, drv, q, rng, tc.writable, tc.direct)
					c := drv.QueueConfig(tc.writable)
					c.NextAvail, c.Mem = 0, nil
					before := slices.Clone(c.Desc)
					got, err := virtqueue.Resume(c)
					if err != nil || got != q.State() {
						t.Fatalf("size %d: resume at %#x, %v, want %#x", cfg.Size, got, err, q.State())
					}
					if !slices.Equal(c.Desc, before) {
						t.Fatalf("size %d: the ring was changed", cfg.Size)
					}
				}
			}
		})
	}
}

// step adds a few chains, or takes and returns a few.
func step(t *testing.T, drv *virtqtest.Driver, q *virtqueue.Queue, rng *rand.Rand, writable, direct bool) {
	t.Helper()
	if rng.IntN(2) == 0 {
		for range 1 + rng.IntN(3) {
			bufs := make([]virtqtest.Buffer, 1+rng.IntN(min(3, int(drv.Size()))))
			for i := range bufs {
				bufs[i] = virtqtest.Buffer{Addr: highAddr, Len: 8}
			}
			n := len(bufs)
			if !direct && n > 1 {
				n = 0
			}
			r, w := bufs, []virtqtest.Buffer(nil)
			if writable {
				r, w = w, r
			}
			if _, err := drv.AddSplit(n, r, w); err != nil && !errors.Is(err, virtqtest.ErrFull) {
				t.Fatal(err)
			}
		}
		drv.Publish()
		return
	}
	for range 1 + rng.IntN(6) {
		_, token, err := q.Take(nil)
		if err != nil {
			break
		}
		q.Return(token, 0)
	}
	q.Publish()
	for {
		if _, ok, err := drv.Reap(); err != nil {
			t.Fatal(err)
		} else if !ok {
			return
		}
	}
}

// Memory that no driver and no device has left so.
func TestResumeRefuses(t *testing.T) {
	const avail, used = virtqtest.FlagAvail, virtqtest.FlagUsed
	drv, _ := pair(t, virtqtest.Config{Size: 4, Packed: true}, false)
	for i, flags := range []uint16{avail, used, avail, used} {
		drv.Packed().SetDesc(uint16(i), virtqtest.PackedDesc{Flags: flags})
	}
	if at, err := virtqueue.Resume(drv.QueueConfig(false)); err == nil {
		t.Errorf("laps mixed: resume at %#x", at)
	}
	drv, _ = pair(t, virtqtest.Config{Size: 4}, false)
	c := drv.QueueConfig(false)
	c.Used = c.Used[:3]
	if _, err := virtqueue.Resume(c); err == nil {
		t.Error("a short used ring")
	}
}
