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
		{"size 0", func(c *virtqueue.Config) { c.Size = 0 }, "power of two"},
		{"size 3", func(c *virtqueue.Config) { c.Size = 3 }, "power of two"},
		{"size 32769", func(c *virtqueue.Config) { c.Size = 32769 }, "power of two"},
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

// Every legal size works, also where it just fits its 16-bit index.
func TestSizes(t *testing.T) {
	for size := uint16(1); size != 0; size <<= 1 {
		mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0, 2<<20))
		if err != nil {
			t.Fatal(err)
		}
		drv, err := virtqtest.NewDriver(mem, virtqtest.Config{Size: size, FirstIndex: 0x8001})
		if err != nil {
			t.Fatal(err)
		}
		q, err := virtqueue.New(drv.QueueConfig(true))
		if err != nil {
			t.Fatal(err)
		}
		if q.Size() != int(size) {
			t.Errorf("Size %d, want %d", q.Size(), size)
		}
		for range 3 {
			for range size {
				if _, err := drv.Add(nil, []virtqtest.Buffer{{Addr: 64, Len: 1}}); err != nil {
					t.Fatal(err)
				}
			}
			drv.Publish()
			if q.Pending() != int(size) {
				t.Fatalf("size %d: %d pending", size, q.Pending())
			}
			for range size {
				_, token, err := q.Take(nil)
				if err != nil {
					t.Fatal(err)
				}
				q.Return(token, 1)
			}
			q.Publish()
			for range size {
				reap(t, drv)
			}
			wantEmpty(t, q)
		}
	}
}

// A successor goes on where its predecessor was, whether that said goodbye or
// not, and chains that were held come again.
func TestResume(t *testing.T) {
	for _, crash := range []bool{false, true} {
		drv, q := pair(t, virtqtest.Config{Size: 8, FirstIndex: 0xfffc}, false)
		q.SuppressKicks()
		heads := addN(t, drv, false, 7)
		for range 5 {
			_, token := take(t, q)
			q.Return(token, 0)
		}
		q.Publish()
		take(t, q)
		cfg := drv.QueueConfig(false)
		cfg.NextAvail = uint16(q.State())
		if crash {
			var err error
			if cfg.NextAvail, err = virtqueue.ResumeIndex(cfg.Used); err != nil {
				t.Fatal(err)
			}
		}
		if cfg.NextAvail != 1 {
			t.Errorf("crash %v: resume at %d, want 1", crash, cfg.NextAvail)
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
}

func TestResumeIndexRefuses(t *testing.T) {
	b := make([]byte, 1024)
	for _, used := range [][]byte{nil, b[:3], b[2:100]} {
		if _, err := virtqueue.ResumeIndex(used); err == nil {
			t.Errorf("used ring of %d bytes accepted", len(used))
		}
	}
}

func TestCauses(t *testing.T) {
	seen := map[string]bool{}
	for c := virtqueue.CauseAvailJump; c <= virtqueue.CauseIndirectUnmapped; c++ {
		s := c.String()
		if s == "" || strings.HasPrefix(s, "cause ") || seen[s] {
			t.Errorf("cause %d has no text of its own: %q", uint8(c), s)
		}
		seen[s] = true
	}
	found := map[virtqueue.Cause]bool{}
	for _, f := range virtqtest.Faults() {
		found[f.Cause] = true
	}
	if len(found) != len(seen) {
		t.Errorf("virtqtest has faults for %d of %d causes", len(found), len(seen))
	}
	if got := virtqueue.Cause(200).String(); got != "cause 200" {
		t.Errorf("unknown cause: %q", got)
	}
}
