package virtqueue_test

import (
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *virtqueue.Config)
		want   string
	}{
		{"size 0", func(c *virtqueue.Config) { c.Size = 0 }, "size 0 is not in 1…32768"},
		{"size 3", func(c *virtqueue.Config) { c.Size = 3 }, "power of two"},
		{"size 32769", func(c *virtqueue.Config) { c.Size = 32769 }, "size 32769 is not in"},
		{"no memory", func(c *virtqueue.Config) { c.Mem = nil }, "memory map"},
		{"short table", func(c *virtqueue.Config) { c.Desc = c.Desc[:127] }, "descriptor table of 127 bytes, want 128"},
		{"short available ring", func(c *virtqueue.Config) { c.Avail = c.Avail[:20] }, "available ring of 20 bytes, want 22"},
		{"short used ring", func(c *virtqueue.Config) { c.Used = c.Used[:68] }, "used ring of 68 bytes, want 70"},
		{"long used ring", func(c *virtqueue.Config) { c.Used = c.Used[:72] }, "used ring of 72 bytes, want 70"},
		{"crooked table", func(c *virtqueue.Config) { c.Desc = c.Desc[8:136] }, "aligned to 16"},
		{"crooked available ring", func(c *virtqueue.Config) { c.Avail = c.Avail[1:23] }, "aligned to 2"},
		{"crooked used ring", func(c *virtqueue.Config) { c.Used = c.Used[2:72] }, "aligned to 4"},
		{"nothing", func(c *virtqueue.Config) { *c = virtqueue.Config{Size: 8, Mem: c.Mem} }, "descriptor table of 0 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drv, _ := pair(t, virtqtest.Config{Size: 8}, false)
			c := drv.QueueConfig(false)
			desc, avail, used := drv.Ring().Addrs()
			mem := drv.Memory() // the same bytes, but with more behind them
			c.Desc = mem.Bytes(desc, 256)[:128:256]
			c.Avail = mem.Bytes(avail, 64)[:22:64]
			c.Used = mem.Bytes(used, 128)[:70:128]
			tc.change(&c)
			if _, err := virtqueue.New(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// Every legal size works, also where it just fits its 16-bit index, and any
// number in a packed ring.
func TestSizes(t *testing.T) {
	formats(t, virtqtest.Config{}, func(t *testing.T, cfg virtqtest.Config) {
		for size := uint16(1); size != 0; size <<= 1 {
			cfg.Size, cfg.FirstIndex = size, 0x8001
			testSize(t, cfg)
		}
		for _, size := range []uint16{3, 5, 7, 100, 255, 1000, 32767} {
			cfg.Size = size
			if cfg.Packed {
				testSize(t, cfg)
			} else if _, err := virtqtest.NewDriver(twoRegions(t), cfg); err == nil {
				t.Errorf("a split ring of %d", size)
			}
		}
	})
}

func testSize(t *testing.T, cfg virtqtest.Config) {
	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0, 2<<20))
	if err != nil {
		t.Fatal(err)
	}
	drv, err := virtqtest.NewDriver(mem, cfg)
	if err != nil {
		t.Fatal(err)
	}
	q, err := virtqueue.New(drv.QueueConfig(true))
	if err != nil {
		t.Fatal(err)
	}
	size := int(cfg.Size)
	if q.Size() != size {
		t.Errorf("Size %d, want %d", q.Size(), size)
	}
	for range 3 {
		for range size {
			if _, err := drv.Add(nil, []virtqtest.Buffer{{Addr: 64, Len: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		drv.Publish()
		if q.Pending() != size {
			t.Fatalf("size %d: %d pending", size, q.Pending())
		}
		for range size {
			_, token, err := q.Take(nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Return(token, 1)
		}
		wantEmpty(t, q)
		q.Publish()
		for range size {
			reap(t, drv)
		}
		wantEmpty(t, q)
	}
}

// A successor goes on where its predecessor was, whether that said goodbye or
// not, and chains that were held come again.
func TestResume(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8, FirstIndex: 0xfffc}, func(t *testing.T, cfg virtqtest.Config) {
		testResume(t, cfg, false)
		testResume(t, cfg, true)
	})
}

func testResume(t *testing.T, c virtqtest.Config, crash bool) {
	drv, q := pair(t, c, false)
	q.SuppressKicks()
	heads := addN(t, drv, false, 7)
	for range 5 {
		_, token := take(t, q)
		q.Return(token, 0)
	}
	q.Publish()
	take(t, q)
	cfg := drv.QueueConfig(false)
	cfg.NextAvail = q.State()
	if crash {
		var err error
		cfg.Indirect = true
		if cfg.NextAvail, err = virtqueue.Resume(cfg); err != nil {
			t.Fatal(err)
		}
	}
	if want := map[bool]uint32{false: 1, true: 0x80018001}[c.Packed]; cfg.NextAvail != want {
		t.Errorf("crash %v: resume at %#x, want %#x", crash, cfg.NextAvail, want)
	}
	q, err := virtqueue.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !q.ArmKicks() || q.Pending() != 2 {
		t.Errorf("crash %v: %d pending, want 2", crash, q.Pending())
	}
	vecs := make([]iov.Vec, 0, 4)
	for range 2 {
		_, token, err := q.Take(vecs)
		if err != nil {
			t.Fatal(err)
		}
		q.Return(token, 0)
	}
	if !q.Publish() {
		t.Error("a successor's first decision must be a call")
	}
	for _, h := range heads {
		if u := reap(t, drv); u.Head != h {
			t.Errorf("crash %v: returned %d, want %d", crash, u.Head, h)
		}
	}
	addN(t, drv, false, 1)
	if !drv.Kick() {
		t.Error("kicks are still suppressed by the predecessor")
	}
}

func TestCauses(t *testing.T) {
	seen := map[string]bool{}
	for c := virtqueue.CauseAvailJump; c <= virtqueue.CauseDescInFlight; c++ {
		s := c.String()
		if s == "" || strings.HasPrefix(s, "cause ") || seen[s] {
			t.Errorf("cause %d has no text of its own: %q", uint8(c), s)
		}
		seen[s] = true
	}
	found := map[virtqueue.Cause]bool{}
	for _, f := range append(virtqtest.Faults(), virtqtest.PackedFaults()...) {
		found[f.Cause] = true
	}
	if len(found) != len(seen) {
		t.Errorf("virtqtest has faults for %d of %d causes", len(found), len(seen))
	}
	if got := virtqueue.Cause(200).String(); got != "cause 200" {
		t.Errorf("unknown cause: %q", got)
	}
}
