package virtqueue_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// virtio 1.2, 2.7.4 and 2.7.5.3: a chain is direct, indirect or both, and its
// buffers come out in order, wherever they lie.
func TestChainShapes(t *testing.T) {
	bufs := []virtqtest.Buffer{
		{Addr: highAddr, Len: 10},
		{Addr: lowAddr + lowSize - page, Len: 1},
		{Addr: highAddr + highSize - 4, Len: 4},
		{Addr: highAddr - 100, Len: 300}, // over the border of the regions
		{Addr: highAddr - 1, Len: 2},
	}
	want := []virtqtest.Buffer{
		bufs[0], bufs[1], bufs[2],
		{Addr: highAddr - 100, Len: 100},
		{Addr: highAddr, Len: 200},
		{Addr: highAddr - 1, Len: 1},
		{Addr: highAddr, Len: 1},
	}
	formats(t, virtqtest.Config{Size: 8, Indirect: true, FirstIndex: 6}, func(t *testing.T, cfg virtqtest.Config) {
		directions(t, func(t *testing.T, writable bool) {
			for direct := range len(bufs) + 1 {
				if !cfg.Packed || direct == 0 || direct == len(bufs) {
					testShape(t, cfg, writable, direct, bufs, want)
				}
			}
		})
	})
}

func testShape(t *testing.T, cfg virtqtest.Config, writable bool, direct int, bufs, want []virtqtest.Buffer) {
	drv, q := pair(t, cfg, writable)
	r, w := bufs, []virtqtest.Buffer(nil)
	if writable {
		r, w = w, r
	}
	head, err := drv.AddSplit(direct, r, w)
	if err != nil {
		t.Fatal(err)
	}
	drv.Publish()
	scratch := make([]iov.Vec, 1, 3) // too short: Take must grow it
	vecs, token, err := q.Take(scratch)
	if err != nil {
		t.Fatalf("%d direct: %v", direct, err)
	}
	if diff := cmp.Diff(want, ranges(t, drv.Memory().Map(), vecs[1:])); diff != "" {
		t.Errorf("%d direct: wrong buffers (-want +got):\n%s", direct, diff)
	}
	wantEmpty(t, q)
	q.Return(token, 0)
	q.Publish()
	if u := reap(t, drv); u.Head != head {
		t.Errorf("returned head %d, want %d", u.Head, head)
	}
	if drv.Free() != 8 {
		t.Errorf("%d descriptors free, want 8", drv.Free())
	}
}

// virtio 1.2, 2.7.5.3.2: an indirect table may lie anywhere. It is one buffer to
// the driver, but need not be one piece of this process's memory.
func TestIndirectTableAcrossRegions(t *testing.T) {
	drv, q := pair(t, virtqtest.Config{Size: 8, Indirect: true}, false)
	ring, mem := drv.Ring(), drv.Memory()
	const table = highAddr - 24 // not even aligned
	want := []virtqtest.Buffer{{Addr: lowAddr, Len: 7}, {Addr: highAddr + 64, Len: 9}, {Addr: lowAddr, Len: 5}}
	for i, b := range want {
		d := [16]byte{
			byte(b.Addr), byte(b.Addr >> 8), byte(b.Addr >> 16), byte(b.Addr >> 24), 0, 0, 0, 0,
			byte(b.Len), 0, 0, 0, virtqtest.FlagNext, 0, byte(i + 1), 0,
		}
		if i == len(want)-1 {
			d[12] = 0
		}
		for k, c := range d {
			mem.Bytes(table+uint64(16*i+k), 1)[0] = c
		}
	}
	for range 2 {
		ring.SetDesc(3, virtqtest.Desc{Addr: table, Len: 48, Flags: virtqtest.FlagIndirect | virtqtest.FlagWrite})
		_, idx := ring.Used()
		ring.SetAvailSlot(idx, 3)
		ring.SetAvail(0, idx+1)
		vecs, token := take(t, q)
		if diff := cmp.Diff(want, ranges(t, mem.Map(), vecs)); diff != "" {
			t.Errorf("wrong buffers (-want +got):\n%s", diff)
		}
		q.Return(token, 0)
		q.Publish()
	}
}

// virtio 1.2, 2.7.5.3.1: a chain may be as long as the queue, not longer.
func TestLongestChain(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8, Indirect: true, FirstIndex: 3}, func(t *testing.T, cfg virtqtest.Config) {
		for _, direct := range []int{0, 3, 8} {
			if cfg.Packed && direct == 3 {
				continue
			}
			drv, q := pair(t, cfg, false)
			bufs := make([]virtqtest.Buffer, 8)
			for i := range bufs {
				bufs[i] = virtqtest.Buffer{Addr: lowAddr, Len: uint32(i + 1)}
			}
			if _, err := drv.AddSplit(direct, bufs, nil); err != nil {
				t.Fatal(err)
			}
			drv.Publish()
			if vecs, _ := take(t, q); len(vecs) != 8 {
				t.Errorf("%d direct: %d buffers, want 8", direct, len(vecs))
			}
		}
	})
}

// A chain of the wrong direction, or of both, is returned unused, and the next
// one taken.
func TestWrongDirectionIsDropped(t *testing.T) {
	a, b := virtqtest.Buffer{Addr: lowAddr, Len: 8}, virtqtest.Buffer{Addr: highAddr, Len: 8}
	formats(t, virtqtest.Config{Size: 16, Indirect: true}, func(t *testing.T, cfg virtqtest.Config) {
		directions(t, func(t *testing.T, writable bool) { testWrongDirection(t, cfg, writable, a, b) })
	})
}

func testWrongDirection(t *testing.T, cfg virtqtest.Config, writable bool, a, b virtqtest.Buffer) {
	drv, q := pair(t, cfg, writable)
	wrong := []uint16{
		add(t, drv, !writable, a),
		add(t, drv, !writable, a, b),
	}
	for _, direct := range []int{0, 1, 2} {
		if cfg.Packed && direct == 1 {
			continue
		}
		h, err := drv.AddSplit(direct, []virtqtest.Buffer{a}, []virtqtest.Buffer{b})
		if err != nil {
			t.Fatal(err)
		}
		wrong = append(wrong, h)
	}
	good := add(t, drv, writable, b)
	vecs, token := take(t, q)
	if diff := cmp.Diff([]virtqtest.Buffer{b}, ranges(t, drv.Memory().Map(), vecs)); diff != "" {
		t.Errorf("wrong buffers (-want +got):\n%s", diff)
	}
	wantEmpty(t, q)
	q.Return(token, 0)
	q.Publish()
	order := append([]uint16{good}, wrong...)
	if cfg.InOrder {
		order = append(wrong, good)
	}
	for _, h := range order {
		if u := reap(t, drv); u != (virtqtest.Used{Head: h}) {
			t.Errorf("returned %+v, want head %d with length 0", u, h)
		}
	}
	want := virtqueue.Counters{Chains: 1, Dropped: uint64(len(wrong)), Batches: 1, Calls: 1}
	if got := q.Counters(); got != want {
		t.Errorf("counters %+v, want %+v", got, want)
	}
}

// A whole ring of chains of the wrong direction is still no broken ring.
func TestRingFullOfWrongDirection(t *testing.T) {
	formats(t, virtqtest.Config{Size: 16, FirstIndex: 5}, func(t *testing.T, cfg virtqtest.Config) {
		drv, q := pair(t, cfg, false)
		addN(t, drv, true, 16)
		wantEmpty(t, q)
		if n := q.Counters().Dropped; n != 16 {
			t.Errorf("%d dropped, want 16", n)
		}
		q.Publish()
		for range 16 {
			reap(t, drv)
		}
	})
}

func TestFaults(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8, Indirect: true}, func(t *testing.T, cfg virtqtest.Config) {
		directions(t, func(t *testing.T, writable bool) {
			faults := virtqtest.Faults()
			if cfg.Packed {
				faults = virtqtest.PackedFaults()
			}
			for _, f := range faults {
				for _, first := range []uint16{0, 0xfffe} {
					cfg.FirstIndex = first
					t.Run(f.Name, func(t *testing.T) { testFault(t, f, cfg, writable) })
				}
			}
		})
	})
}

func testFault(t *testing.T, f virtqtest.Fault, c virtqtest.Config, writable bool) {
	drv, err := virtqtest.NewDriver(twoRegions(t), c)
	if err != nil {
		t.Fatal(err)
	}
	cfg := drv.QueueConfig(writable)
	cfg.Indirect = !f.NoIndirect
	q, err := virtqueue.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantEmpty(t, q)
	if err := f.Apply(drv, writable); err != nil {
		t.Fatal(err)
	}
	marker := []iov.Vec{{Len: 77}}
	var taken int
	for err == nil {
		var vecs []iov.Vec
		if vecs, _, err = q.Take(marker); err == nil {
			taken++
		} else if len(vecs) != 1 || vecs[0].Len != 77 {
			t.Errorf("dst came back as %v", vecs)
		}
	}
	var broken *virtqueue.BrokenError
	if !errors.As(err, &broken) || broken.Cause != f.Cause {
		t.Fatalf("Take: %v, want cause %v", err, f.Cause)
	}
	if !errors.Is(err, virtqueue.ErrBroken) || errors.Is(err, virtqueue.ErrEmpty) || q.Err() != err {
		t.Errorf("error %v is not ErrBroken only, or Err returns another: %v", err, q.Err())
	}
	// Nothing more is taken, not even what is given back or new and good.
	q.Untake(taken)
	if !c.Packed {
		drv.Ring().SetAvail(0, c.FirstIndex+8)
	}
	if _, _, again := q.Take(nil); again != err {
		t.Errorf("Take on a broken ring: %v, want %v", again, err)
	}
	if q.Pending() != 0 || q.ArmKicks() {
		t.Error("a broken ring has something pending")
	}
}

// A broken ring found by looking is told by the next Take.
func TestArmKicksFindsBrokenRing(t *testing.T) {
	for _, eventIdx := range []bool{false, true} {
		drv, q := pair(t, virtqtest.Config{Size: 8, EventIdx: eventIdx}, false)
		drv.Ring().SetAvail(0, 9)
		if !q.ArmKicks() {
			t.Error("ArmKicks lets a worker sleep on news")
		}
		if _, _, err := q.Take(nil); !errors.Is(err, virtqueue.ErrBroken) {
			t.Errorf("Take: %v", err)
		}
	}
}
