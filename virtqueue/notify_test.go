package virtqueue_test

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// serve takes, returns and publishes n chains.
func serve(t *testing.T, q *virtqueue.Queue, n int) (call bool) {
	t.Helper()
	for range n {
		_, token := take(t, q)
		q.Return(token, 0)
	}
	return q.Publish()
}

// virtio 1.2, 2.7.7.2 without EVENT_IDX: the flags of the available ring decide.
func TestCallByFlag(t *testing.T) {
	for _, odd := range []bool{false, true} {
		drv, q := pair(t, virtqtest.Config{Size: 8, OddAvail: odd}, true)
		for i, want := range []bool{true, true, false, false, true} {
			if want {
				drv.EnableCalls()
			} else {
				drv.DisableCalls()
			}
			addN(t, drv, true, 1)
			if got := serve(t, q, 1); got != want {
				t.Errorf("odd %v, batch %d: call %v, want %v", odd, i, got, want)
			}
			reap(t, drv)
		}
	}
}

// virtio 1.2, 2.7.7.2 with EVENT_IDX: a call when the used index passes the
// event index, and the flag means nothing.
func TestCallByEventIdx(t *testing.T) {
	for _, tc := range []struct {
		name  string
		batch uint16
		event int // relative to the used index before the batch
		want  bool
	}{
		{"first of the batch", 4, 0, true},
		{"last of the batch", 4, 3, true},
		{"just behind the batch", 4, 4, false},
		{"just before the batch", 4, -1, false},
		{"half the circle away", 4, 0x8000, false},
		{"single", 1, 0, true},
		{"single, later", 1, 1, false},
	} {
		for _, first := range []uint16{0, 0xfffb, 0x7ffe} {
			t.Run(tc.name, func(t *testing.T) {
				drv, q := pair(t, virtqtest.Config{Size: 8, EventIdx: true, FirstIndex: first}, true)
				drv.Ring().SetUsedEvent(first + 0x1234)
				addN(t, drv, true, 1)
				if !serve(t, q, 1) {
					t.Error("the first decision is not a call")
				}
				reap(t, drv)
				addN(t, drv, true, int(tc.batch))
				drv.Ring().SetAvail(1, first+1+tc.batch)
				drv.Ring().SetUsedEvent(first + 1 + uint16(tc.event))
				if got := serve(t, q, int(tc.batch)); got != tc.want {
					t.Errorf("call %v, want %v", got, tc.want)
				}
			})
		}
	}
}

// virtio 1.2, 2.7.10 and 2.8.21.2: the driver kicks when it was asked to and only
// then.
func TestKicks(t *testing.T) {
	for _, eventIdx := range []bool{false, true} {
		for _, odd := range []bool{false, true} {
			cfg := virtqtest.Config{Size: 8, EventIdx: eventIdx, OddAvail: odd, FirstIndex: 0xfffc}
			formats(t, cfg, func(t *testing.T, cfg virtqtest.Config) { testKicks(t, cfg) })
		}
	}
}

func testKicks(t *testing.T, cfg virtqtest.Config) {
	drv, q := pair(t, cfg, false)
	kick := func(n int) bool { addN(t, drv, false, n); return drv.Kick() }
	expect := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("EVENT_IDX %v, odd %v: %s: %v, want %v", cfg.EventIdx, cfg.OddAvail, what, got, want)
		}
	}
	expect("chains on an idle ring", q.ArmKicks(), false)
	expect("kick on the first chain", kick(1), true)
	q.SuppressKicks()
	expect("kick while suppressed", kick(2), false)
	expect("chains before the last look", q.ArmKicks(), true)
	serve(t, q, 3)
	expect("chains after the last", q.ArmKicks(), false)
	expect("kick after arming", kick(1), true)
	q.SuppressKicks()
	serve(t, q, 1)
	expect("kick while draining", kick(1), false)
	serve(t, q, 1)
}

// A device that needs more chains than are there arms the kick for those that
// follow, not for those it knows.
func TestArmKicksBehindPending(t *testing.T) {
	for _, eventIdx := range []bool{false, true} {
		cfg := virtqtest.Config{Size: 8, EventIdx: eventIdx, FirstIndex: 6}
		formats(t, cfg, func(t *testing.T, cfg virtqtest.Config) {
			drv, q := pair(t, cfg, true)
			addN(t, drv, true, 3)
			drv.Kick()
			take(t, q)
			if !q.ArmKicks() || q.Pending() != 2 {
				t.Errorf("ArmKicks or Pending (%d) does not see two chains", q.Pending())
			}
			addN(t, drv, true, 1)
			if !drv.Kick() {
				t.Error("no kick for the chain behind")
			}
			if q.Pending() != 3 {
				t.Errorf("%d pending, want 3", q.Pending())
			}
		})
	}
}

// The device must not write behind its part of the used ring: with EVENT_IDX
// the two bytes after avail_event are not its own.
func TestAvailEventIsTwoBytes(t *testing.T) {
	drv, err := virtqtest.NewDriver(twoRegions(t), virtqtest.Config{Size: 8, EventIdx: true, FirstIndex: 0xffff})
	if err != nil {
		t.Fatal(err)
	}
	_, _, used := drv.Ring().Addrs()
	behind := drv.Memory().Bytes(used+uint64(virtqueue.UsedBytes(8)), 8)
	for i := range behind {
		behind[i] = 0xa5
	}
	q, err := virtqueue.New(drv.QueueConfig(true))
	if err != nil {
		t.Fatal(err)
	}
	q.ArmKicks()
	if got := drv.Ring().AvailEvent(); got != 0xffff {
		t.Errorf("avail_event %#x, want 0xffff", got)
	}
	for i, c := range behind {
		if c != 0xa5 {
			t.Errorf("byte %d behind the used ring was written", i)
		}
	}
}
