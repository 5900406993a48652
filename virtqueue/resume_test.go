package virtqueue_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// A ring in any state, with a device that returns chains in order, is resumed
// where the device was, or not at all. These rings are small; with larger ones a
// used descriptor stays in the ring for longer, and fewer states are unknown.
func TestResumeFromMemory(t *testing.T) {
	for _, tc := range []struct {
		name     string
		cfg      virtqtest.Config
		writable bool
		direct   bool // chains of several slots
		unknown  int  // percent of the states, at most
	}{
		{"split", virtqtest.Config{}, false, true, 0},
		{"receive", virtqtest.Config{Packed: true, Indirect: true}, true, false, 0},
		{"transmit", virtqtest.Config{Packed: true, Indirect: true}, false, false, 0},
		{"receive in order", virtqtest.Config{Packed: true, Indirect: true, InOrder: true}, true, false, 0},
		{"receive in order, direct", virtqtest.Config{Packed: true, InOrder: true}, true, true, 0},
		{"transmit in order", virtqtest.Config{Packed: true, Indirect: true, InOrder: true}, false, false, 20},
		{"transmit in order, direct", virtqtest.Config{Packed: true, InOrder: true}, false, true, 35},
		{"direct", virtqtest.Config{Packed: true}, false, true, 0},
		{"receive direct", virtqtest.Config{Packed: true}, true, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			unknown, states := 0, 0
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
					states++
					got, err := virtqueue.Resume(c)
					switch {
					case err != nil:
						unknown++
					case got != q.State():
						t.Fatalf("size %d: resume at %#x, want %#x", cfg.Size, got, q.State())
					}
				}
			}
			if unknown*100 > states*tc.unknown {
				t.Errorf("%d of %d states are not known", unknown, states)
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
	const avail, used, next = virtqtest.FlagAvail, virtqtest.FlagUsed, virtqtest.FlagNext
	type d = virtqtest.PackedDesc
	for _, tc := range []struct {
		name    string
		inOrder bool
		ring    [4]virtqtest.PackedDesc
	}{
		{"laps mixed", false, [4]d{{Flags: avail}, {Flags: used}, {Flags: avail}, {Flags: used}}},
		{"batch up to nowhere", true, [4]d{{ID: 9, Flags: avail | used}, {ID: 1, Flags: avail}, {}, {}}},
		{"batch up to another chain", true, [4]d{{ID: 2, Flags: avail | used}, {ID: 1, Flags: avail}, {ID: 3, Flags: avail}, {}}},
		{"batch up to the middle of a chain", true, [4]d{{ID: 1, Flags: avail | used}, {ID: 1, Flags: avail | next}, {ID: 1}, {}}},
		{"chain without end", true, [4]d{{ID: 1, Flags: avail | used}, {ID: 1, Flags: avail | next}, {ID: 1, Flags: avail | next}, {ID: 1, Flags: avail | next}}},
		{"nothing used, a batch may have been", true, [4]d{{Flags: avail}, {ID: 1, Flags: avail}, {ID: 2, Flags: used}, {ID: 3, Flags: used}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drv, _ := pair(t, virtqtest.Config{Size: 4, Packed: true, InOrder: tc.inOrder}, false)
			for i, d := range tc.ring {
				drv.Packed().SetDesc(uint16(i), d)
			}
			if at, err := virtqueue.Resume(drv.QueueConfig(false)); err == nil {
				t.Errorf("resume at %#x", at)
			}
		})
	}
	drv, _ := pair(t, virtqtest.Config{Size: 4}, false)
	c := drv.QueueConfig(false)
	c.Used = c.Used[:3]
	if _, err := virtqueue.Resume(c); err == nil {
		t.Error("a short used ring")
	}
}
