package virtqueue_test

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Neither side allocates, whatever the shape of the chain.
func TestNoAllocations(t *testing.T) {
	bufs := make([]virtqtest.Buffer, 19)
	for i := range bufs {
		bufs[i] = virtqtest.Buffer{Addr: highAddr - 100, Len: 200} // two vectors each
	}
	formats(t, virtqtest.Config{Size: 64, EventIdx: true, Indirect: true}, func(t *testing.T, cfg virtqtest.Config) {
		directions(t, func(t *testing.T, writable bool) { testNoAllocations(t, cfg, writable, bufs) })
	})
}

func testNoAllocations(t *testing.T, cfg virtqtest.Config, writable bool, bufs []virtqtest.Buffer) {
	mixed := 5
	if cfg.Packed {
		mixed = 19
	}
	drv, q := pair(t, cfg, writable)
	vecs := make([]iov.Vec, 0, 64)
	n := testing.AllocsPerRun(200, func() {
		q.SuppressKicks()
		for _, direct := range []int{19, 0, mixed} {
			r, w := bufs, []virtqtest.Buffer(nil)
			if writable {
				r, w = w, r
			}
			if _, err := drv.AddSplit(direct, r, w); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := drv.Add(bufs[:1], bufs[:1]); err != nil { // to be dropped
			t.Fatal(err)
		}
		drv.Kick()
		for range 3 {
			v, _, err := q.Take(vecs[:0])
			if err != nil || len(v) != 38 {
				t.Fatal(len(v), err)
			}
			q.Untake(1)
			_, token, err := q.Take(vecs[:0])
			if err != nil {
				t.Fatal(err)
			}
			q.Return(token, 0)
		}
		q.Take(vecs[:0]) // empty
		q.Publish()
		q.ArmKicks()
		for range 4 {
			if _, ok, err := drv.Reap(); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		drv.EnableCallsDelayed()
	})
	if n != 0 {
		t.Errorf("%v allocations per round, want 0", n)
	}
}
