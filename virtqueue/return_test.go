package virtqueue_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// virtio 1.2, 2.7.8 and 2.8.9: what is used is seen all at once. It comes in the
// order in which it was returned, with IN_ORDER in that in which it was taken.
func TestPublishInOneStep(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8, FirstIndex: 0xfffd}, func(t *testing.T, cfg virtqtest.Config) {
		drv, q := pair(t, cfg, true)
		heads := addN(t, drv, true, 6)
		var tokens []uint32
		for range heads {
			_, token := take(t, q)
			tokens = append(tokens, token)
		}
		if q.Publish() {
			t.Error("Publish of nothing wants a call")
		}
		// Any order; lengths up to that of the chain.
		var want []virtqtest.Used
		for _, i := range []int{3, 0, 5, 1, 2, 4} {
			q.Return(tokens[i], uint32(i*3))
			want = append(want, virtqtest.Used{Head: heads[i], Len: uint32(i * 3)})
		}
		if cfg.InOrder {
			slices.SortFunc(want, func(a, b virtqtest.Used) int { return int(a.Len) - int(b.Len) })
		}
		if _, ok, err := drv.Reap(); ok || err != nil {
			t.Errorf("driver sees a chain before Publish, error %v", err)
		}
		q.Publish()
		var got []virtqtest.Used
		for range heads {
			got = append(got, reap(t, drv))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("used elements (-want +got):\n%s", diff)
		}
	})
}

func TestMisuseOfReturnPanics(t *testing.T) {
	for _, tc := range []struct {
		name     string
		writable bool
		f        func(q *virtqueue.Queue, token uint32)
	}{
		{"returned twice", true, func(q *virtqueue.Queue, token uint32) { q.Return(token, 0); q.Return(token, 0) }},
		{"token from nowhere", true, func(q *virtqueue.Queue, token uint32) { q.Return(token+1, 0) }},
		{"token beyond the ring", true, func(q *virtqueue.Queue, token uint32) { q.Return(token+8, 0) }},
		{"more than there is room for", true, func(q *virtqueue.Queue, token uint32) { q.Return(token, 17) }},
		{"length in a queue to read", false, func(q *virtqueue.Queue, token uint32) { q.Return(token, 1) }},
		{"untake of nothing", true, func(q *virtqueue.Queue, token uint32) { q.Return(token, 0); q.Untake(1) }},
		{"untake of too much", true, func(q *virtqueue.Queue, _ uint32) { q.Untake(2) }},
		{"untake of less than nothing", true, func(q *virtqueue.Queue, _ uint32) { q.Untake(-1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			formats(t, virtqtest.Config{Size: 8}, func(t *testing.T, cfg virtqtest.Config) {
				drv, q := pair(t, cfg, tc.writable)
				addN(t, drv, tc.writable, 1)
				_, token := take(t, q)
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				tc.f(q, token)
			})
		})
	}
}

func TestUntakeOfReturnedPanics(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8}, func(t *testing.T, cfg virtqtest.Config) {
		drv, q := pair(t, cfg, true)
		addN(t, drv, true, 2)
		take(t, q)
		_, second := take(t, q)
		q.Return(second, 0)
		defer func() {
			if recover() == nil {
				t.Error("no panic though the last chain taken was returned")
			}
		}()
		q.Untake(1)
	})
}

func TestUntake(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8, FirstIndex: 0xfffe}, func(t *testing.T, cfg virtqtest.Config) {
		drv, q := pair(t, cfg, true)
		heads := addN(t, drv, true, 5)
		takeHeads := func(want ...uint16) {
			t.Helper()
			for _, h := range want {
				if _, token := take(t, q); uint16(token) != h {
					t.Fatalf("took %d, want %d", token, h)
				}
			}
		}
		takeHeads(heads[:4]...)
		q.Return(uint32(heads[0]), 0)
		q.Untake(0)
		q.Untake(2)
		state := func(gone int) uint32 { // after so many chains of one descriptor
			c := cfg
			c.FirstIndex += uint16(gone)
			d, _ := pair(t, c, true)
			return d.QueueConfig(true).NextAvail
		}
		if got, want := q.State(), state(1); got != want {
			t.Errorf("State %#x, want %#x: one chain returned", got, want)
		}
		if n := q.Pending(); n != 3 {
			t.Errorf("%d pending, want 3", n)
		}
		takeHeads(heads[2:]...)
		wantEmpty(t, q)
		q.Untake(4)
		takeHeads(heads[1:]...)
		for _, h := range heads[1:] {
			q.Return(uint32(h), 0)
		}
		q.Publish()
		for _, h := range heads {
			if u := reap(t, drv); u.Head != h {
				t.Errorf("returned %d, want %d", u.Head, h)
			}
		}
		want := virtqueue.Counters{Chains: 5, Batches: 1, Calls: 1}
		if got := q.Counters(); got != want {
			t.Errorf("counters %+v, want %+v", got, want)
		}
		if got, want := q.State(), state(5); q.Outstanding() != 0 || got != want {
			t.Errorf("%d outstanding, state %#x; want 0, %#x", q.Outstanding(), got, want)
		}
	})
}

// What was given back comes again as the device knew it, whatever the driver of a
// split ring has written into the slots since; and a dropped chain is not dropped
// twice.
func TestUntakeOverDropped(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8}, func(t *testing.T, cfg virtqtest.Config) {
		drv, q := pair(t, cfg, true)
		first := addN(t, drv, true, 1)[0]
		dropped := addN(t, drv, false, 2)
		last := addN(t, drv, true, 1)[0]
		take(t, q)
		take(t, q)
		q.Publish() // of what was dropped, perhaps
		if !cfg.Packed {
			for pos := range uint16(4) {
				drv.Ring().SetAvailSlot(pos, 7)
			}
		}
		q.Untake(2)
		if n := q.Pending(); n != 4 {
			t.Errorf("%d pending, want 4 with those dropped", n)
		}
		for _, want := range []uint16{first, last} {
			if _, token := take(t, q); uint16(token) != want {
				t.Errorf("took %d, want %d", token, want)
			}
		}
		wantEmpty(t, q)
		q.Return(uint32(first), 16)
		q.Return(uint32(last), 16)
		q.Publish()
		want := []virtqtest.Used{{Head: dropped[0]}, {Head: dropped[1]}, {Head: first, Len: 16}, {Head: last, Len: 16}}
		if cfg.InOrder {
			want = []virtqtest.Used{want[2], want[0], want[1], want[3]}
		} else { // what is dropped waits until nothing is held
			want = []virtqtest.Used{want[2], want[3], want[0], want[1]}
		}
		for _, want := range want {
			if u := reap(t, drv); u != want {
				t.Errorf("returned %+v, want %+v", u, want)
			}
		}
		if n := q.Counters().Dropped; n != 2 {
			t.Errorf("%d dropped, want 2", n)
		}
	})
}

// A dropped chain that waited for one that was given back goes on as soon as that
// one is returned at last.
func TestDroppedBehindUntaken(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8}, func(t *testing.T, cfg virtqtest.Config) {
		drv, q := pair(t, cfg, true)
		addN(t, drv, true, 1)
		addN(t, drv, false, 1)
		_, token := take(t, q)
		wantEmpty(t, q)
		q.Untake(1)
		take(t, q)
		q.Return(token, 16)
		wantEmpty(t, q)
		q.Publish()
		reap(t, drv)
		reap(t, drv)
		if drv.Free() != 8 || q.Counters().Dropped != 1 {
			t.Errorf("%d free, %d dropped", drv.Free(), q.Counters().Dropped)
		}
	})
}

// A driver keeps a device busy with chains to be dropped while it holds one. They
// must not push what is known of that one out of the queue: it can be given back
// however many there were.
func TestUntakeBehindManyDropped(t *testing.T) {
	formats(t, virtqtest.Config{Size: 4}, func(t *testing.T, cfg virtqtest.Config) {
		drv, q := pair(t, cfg, true)
		addN(t, drv, true, 1)
		_, token := take(t, q)
		for range 5 {
			for drv.Free() > 0 {
				addN(t, drv, false, 1)
			}
			wantEmpty(t, q)
			q.Publish()
			for {
				if _, ok, err := drv.Reap(); err != nil {
					t.Fatal(err)
				} else if !ok {
					break
				}
			}
		}
		q.Untake(1)
		if _, again := take(t, q); again != token {
			t.Errorf("took %d, want %d", again, token)
		}
		q.Return(token, 1)
		wantEmpty(t, q)
		q.Publish()
		for drv.Free() < 4 {
			reap(t, drv)
		}
	})
}
