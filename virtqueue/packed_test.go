package virtqueue_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

func TestNewPackedRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *virtqueue.Config)
		want   string
	}{
		{"size 0", func(c *virtqueue.Config) { c.Size = 0 }, "size 0 is not in"},
		{"size 32769", func(c *virtqueue.Config) { c.Size = 32769 }, "is not in"},
		{"short ring", func(c *virtqueue.Config) { c.Desc = c.Desc[:111] }, "descriptor ring of 111 bytes, want 112"},
		{"long driver area", func(c *virtqueue.Config) { c.Avail = c.Avail[:6] }, "driver event suppression of 6 bytes, want 4"},
		{"short device area", func(c *virtqueue.Config) { c.Used = c.Used[:2] }, "device event suppression of 2 bytes, want 4"},
		{"crooked ring", func(c *virtqueue.Config) { c.Desc = c.Desc[8:120] }, "ring is not aligned to 16"},
		{"crooked driver area", func(c *virtqueue.Config) { c.Avail = c.Avail[2:6] }, "driver event suppression is not aligned to 4"},
		{"crooked device area", func(c *virtqueue.Config) { c.Used = c.Used[2:6] }, "device event suppression is not aligned to 4"},
		{"next beyond the ring", func(c *virtqueue.Config) { c.NextAvail = 7 }, "state 0x7 is beyond"},
		{"used beyond the ring", func(c *virtqueue.Config) { c.NextAvail = 7 << 16 }, "is beyond"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drv, _ := pair(t, virtqtest.Config{Size: 7, Packed: true}, false)
			c := drv.QueueConfig(false)
			desc, driver, device := drv.Addrs()
			mem := drv.Memory() // the same bytes, but with more behind them
			c.Desc = mem.Bytes(desc, 256)[:112:256]
			c.Avail = mem.Bytes(driver, 8)[:4:8]
			c.Used = mem.Bytes(device, 8)[:4:8]
			tc.change(&c)
			if _, err := virtqueue.New(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// The coding of vhost-user's ring base.
func TestPackedStart(t *testing.T) {
	for _, tc := range []struct{ next, want uint32 }{
		{virtqueue.FreshPacked, 0x80008000},
		{0x8000, 0x80008000}, // DPDK says only where the driver is
		{0x00050005, 0x00050005},
		{0x00000005, 0x00050005},
		{0x80058005, 0x80058005},
		{0x80028005, 0x80028002}, // the rest was taken and not returned
		{0x00000000, 0x00000000},
	} {
		drv, _ := pair(t, virtqtest.Config{Size: 7, Packed: true}, false)
		c := drv.QueueConfig(false)
		c.NextAvail = tc.next
		q, err := virtqueue.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.State(); got != tc.want {
			t.Errorf("started at %#x: state %#x, want %#x", tc.next, got, tc.want)
		}
	}
}

// virtio 1.2, 2.8.10: when the driver is called.
func TestPackedCall(t *testing.T) {
	at := func(cfg virtqtest.Config, slots int) uint16 { // slots after the start
		n := (int(cfg.FirstIndex) + slots + 2*int(cfg.Size)) % (2 * int(cfg.Size))
		code := uint16(n % int(cfg.Size))
		if n < int(cfg.Size) {
			code |= 0x8000
		}
		return code
	}
	for _, tc := range []struct {
		name     string
		eventIdx bool
		slots    int // used in one batch
		event    int // relative to the first of them
		flags    uint16
		want     bool
	}{
		{"enabled", true, 1, 3, virtqtest.EventEnable, true},
		{"disabled", true, 1, 0, virtqtest.EventDisable, false},
		{"enabled without EVENT_IDX", false, 1, 3, virtqtest.EventEnable, true},
		{"disabled without EVENT_IDX", false, 1, 0, virtqtest.EventDisable, false},
		{"first of the batch", true, 4, 0, virtqtest.EventDesc, true},
		{"last of the batch", true, 4, 3, virtqtest.EventDesc, true},
		{"just behind the batch", true, 4, 4, virtqtest.EventDesc, false},
		{"just before the batch", true, 4, -1, virtqtest.EventDesc, false},
		{"a lap behind", true, 4, 1 - 7, virtqtest.EventDesc, false},
		{"a lap ahead", true, 4, 1 + 7, virtqtest.EventDesc, false},
		{"the whole ring, first", true, 7, 0, virtqtest.EventDesc, true},
		{"the whole ring, last", true, 7, 6, virtqtest.EventDesc, true},
		{"the whole ring, next lap", true, 7, 7, virtqtest.EventDesc, false},
		{"the whole ring, lap before", true, 7, -1, virtqtest.EventDesc, false},
		{"at a descriptor without EVENT_IDX", false, 1, 5, virtqtest.EventDesc, true},
		{"reserved", true, 1, 5, 3, true},
	} {
		for first := range uint16(14) {
			t.Run(tc.name, func(t *testing.T) {
				cfg := virtqtest.Config{Size: 7, Packed: true, EventIdx: tc.eventIdx, FirstIndex: first}
				drv, q := pair(t, cfg, true)
				addN(t, drv, true, 1)
				drv.Packed().SetDriverEvent(0x7abc, virtqtest.EventDesc)
				if !serve(t, q, 1) {
					t.Error("the first decision is not a call")
				}
				reap(t, drv)
				addN(t, drv, true, tc.slots)
				drv.Packed().SetDriverEvent(at(cfg, 1+tc.event), tc.flags)
				if got := serve(t, q, tc.slots); got != tc.want {
					t.Errorf("start %d: call %v, want %v", first, got, tc.want)
				}
			})
		}
	}
}

// What the device writes into its event suppression area, and that it writes
// nothing else.
func TestPackedDeviceEvent(t *testing.T) {
	for _, eventIdx := range []bool{false, true} {
		drv, err := virtqtest.NewDriver(twoRegions(t), virtqtest.Config{Size: 5, Packed: true, EventIdx: eventIdx, FirstIndex: 3})
		if err != nil {
			t.Fatal(err)
		}
		_, _, area := drv.Addrs()
		around := drv.Memory().Bytes(area-4, 12)
		for i := range around {
			around[i] = 0xa5
		}
		q, err := virtqueue.New(drv.QueueConfig(true))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(step string, at, flags uint16) {
			t.Helper()
			gotAt, gotFlags := drv.Packed().DeviceEvent()
			if flags == virtqtest.EventDesc && !eventIdx {
				at, flags = 0, virtqtest.EventEnable
			}
			if flags != gotFlags || flags != virtqtest.EventDisable && at != gotAt {
				t.Errorf("EVENT_IDX %v, %s: event %#x, flags %d; want %#x, %d", eventIdx, step, gotAt, gotFlags, at, flags)
			}
		}
		q.SuppressKicks() // whatever a predecessor has left
		expect("suppress", 0, virtqtest.EventDisable)
		q.ArmKicks()
		expect("arm", 0x8003, virtqtest.EventDesc)
		addN(t, drv, true, 3)
		q.ArmKicks()
		expect("arm behind three", 0x0001, virtqtest.EventDesc)
		q.SuppressKicks()
		expect("suppress again", 0, virtqtest.EventDisable)
		for i, c := range around {
			if (i < 4 || i >= 8) && c != 0xa5 {
				t.Errorf("byte %d beside the area was written", i-4)
			}
		}
	}
}

// virtio 1.2, 2.8.16: what is available is not changed. The device finds out when
// it takes the chain a second time.
func TestPackedChangedWhileHeld(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(d *virtqtest.PackedDesc)
	}{
		{"another ID", func(d *virtqtest.PackedDesc) { d.ID = 6 }},
		{"longer", func(d *virtqtest.PackedDesc) { d.Flags |= virtqtest.FlagNext }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			drv, q := pair(t, virtqtest.Config{Size: 7, Packed: true}, true)
			addN(t, drv, true, 2)
			take(t, q)
			q.Untake(1)
			d := drv.Packed().Desc(0)
			tc.change(&d)
			drv.Packed().SetDesc(0, d)
			wantBroken(t, q, virtqueue.CauseDescInFlight)
		})
	}
}

// A driver that goes on into descriptors that it has not got back.
func TestPackedOverrun(t *testing.T) {
	drv, q := pair(t, virtqtest.Config{Size: 4, Packed: true}, true)
	addN(t, drv, true, 4)
	for range 4 {
		take(t, q)
	}
	wantEmpty(t, q)
	d := drv.Packed().Desc(0)
	d.Flags ^= virtqtest.FlagAvail | virtqtest.FlagUsed
	drv.Packed().SetDesc(0, d)
	wantBroken(t, q, virtqueue.CauseDescInFlight)
}

// Pending sees more than Take finds, as the driver made a chain longer.
func TestPackedLongerThanSeen(t *testing.T) {
	drv, q := pair(t, virtqtest.Config{Size: 4, Packed: true}, true)
	addN(t, drv, true, 4)
	if n := q.Pending(); n != 4 {
		t.Errorf("%d pending, want 4", n)
	}
	for slot := range uint16(3) {
		d := drv.Packed().Desc(slot)
		d.Flags |= virtqtest.FlagNext
		drv.Packed().SetDesc(slot, d)
	}
	if vecs, _ := take(t, q); len(vecs) != 4 {
		t.Errorf("%d buffers, want 4", len(vecs))
	}
	wantBroken(t, q, virtqueue.CauseDescInFlight)
}

func wantBroken(t *testing.T, q *virtqueue.Queue, cause virtqueue.Cause) {
	t.Helper()
	_, _, err := q.Take(nil)
	if broken, ok := errors.AsType[*virtqueue.BrokenError](err); !ok || broken.Cause != cause {
		t.Errorf("Take: %v, want cause %v", err, cause)
	}
}

// Everything at random, on rings of every size up to 9: chains of all shapes run
// over the end of the ring, are given back and returned in any order, and a
// successor takes over now and then.
func TestRandomLife(t *testing.T) {
	formats(t, virtqtest.Config{Indirect: true}, func(t *testing.T, cfg virtqtest.Config) {
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 55))
			cfg.Size = 1 + uint16(seed)%9
			if !cfg.Packed {
				cfg.Size = 1 << (cfg.Size / 3)
			}
			cfg.FirstIndex, cfg.EventIdx = uint16(rng.Uint32()), seed%2 == 0
			randomLife(t, cfg, rng, seed%3 == 0)
		}
	})
}

// life is a ring and what is known of its chains.
type life struct {
	t        *testing.T
	cfg      virtqtest.Config
	rng      *rand.Rand
	writable bool
	drv      *virtqtest.Driver
	q        *virtqueue.Queue

	added, taken []lifeChain       // not taken; taken, not given back
	open         []uint32          // tokens not returned
	want         map[uint16]uint32 // length by head, of what was returned
	wrong        map[uint16]bool   // chains to be dropped
}

type lifeChain struct {
	head uint16
	bufs []virtqtest.Buffer
}

func randomLife(t *testing.T, cfg virtqtest.Config, rng *rand.Rand, writable bool) {
	l := &life{t: t, cfg: cfg, rng: rng, writable: writable, want: map[uint16]uint32{}, wrong: map[uint16]bool{}}
	l.drv, l.q = pair(t, cfg, writable)
	for range 600 {
		switch rng.IntN(9) {
		case 0, 1:
			l.add(1+rng.IntN(int(cfg.Size)), false)
		case 2, 3:
			l.take()
		case 4, 5:
			l.giveBack()
		case 6:
			l.untake()
		case 7:
			l.publish()
		case 8:
			l.add(1, true)
		}
	}
	for len(l.added) > 0 {
		l.take()
	}
	for len(l.open) > 0 {
		l.giveBack()
	}
	wantEmpty(t, l.q)
	l.publish()
	if len(l.wrong) > 0 || l.drv.Free() != int(cfg.Size) {
		t.Fatalf("size %d: %d of the wrong direction not returned, %d free", cfg.Size, len(l.wrong), l.drv.Free())
	}
}

func (l *life) add(n int, wrong bool) {
	c := lifeChain{bufs: make([]virtqtest.Buffer, n)}
	for i := range c.bufs {
		c.bufs[i] = virtqtest.Buffer{Addr: highAddr + uint64(l.rng.IntN(4000)), Len: 1 + uint32(l.rng.IntN(100))}
	}
	r, w := c.bufs, []virtqtest.Buffer(nil)
	if l.writable != wrong {
		r, w = w, r
	}
	var err error
	if c.head, err = l.drv.AddSplit(len(c.bufs)*l.rng.IntN(2), r, w); errors.Is(err, virtqtest.ErrFull) {
		return
	} else if err != nil {
		l.t.Fatal(err)
	}
	l.drv.Publish()
	if wrong {
		l.wrong[c.head] = true
	} else {
		l.added = append(l.added, c)
	}
}

func (l *life) take() {
	vecs, token, err := l.q.Take(nil)
	if len(l.added) == 0 {
		if err != virtqueue.ErrEmpty {
			l.t.Fatalf("Take of nothing: %v", err)
		}
		return
	} else if err != nil {
		l.t.Fatal(err)
	}
	c := l.added[0]
	if diff := cmp.Diff(c.bufs, ranges(l.t, l.drv.Memory().Map(), vecs)); diff != "" || uint16(token) != c.head {
		l.t.Fatalf("token %d, want %d; buffers (-want +got):\n%s", token, c.head, diff)
	}
	l.taken, l.open, l.added = append(l.taken, c), append(l.open, token), l.added[1:]
}

func (l *life) giveBack() {
	if len(l.open) == 0 {
		return
	}
	i := l.rng.IntN(len(l.open))
	n := uint32(0)
	if l.writable {
		n = 1
	}
	l.q.Return(l.open[i], n)
	l.want[uint16(l.open[i])] = n
	l.open = append(l.open[:i], l.open[i+1:]...)
}

func (l *life) untake() {
	for len(l.open) > 0 && len(l.taken) > 0 && l.rng.IntN(3) > 0 {
		last := l.taken[len(l.taken)-1]
		if l.open[len(l.open)-1] != uint32(last.head) {
			break
		}
		l.q.Untake(1)
		l.added = append([]lifeChain{last}, l.added...)
		l.open, l.taken = l.open[:len(l.open)-1], l.taken[:len(l.taken)-1]
	}
	if n := l.q.Pending(); n < len(l.added) || n > int(l.cfg.Size) {
		l.t.Fatalf("%d pending, want at least %d", n, len(l.added))
	}
}

func (l *life) publish() {
	l.q.Publish()
	for {
		u, ok, err := l.drv.Reap()
		if err != nil {
			l.t.Fatalf("size %d: %v", l.cfg.Size, err)
		}
		if !ok {
			break
		}
		n, known := l.want[u.Head]
		switch {
		case known && n == u.Len:
			delete(l.want, u.Head)
		case !known && l.wrong[u.Head]:
			delete(l.wrong, u.Head)
		default:
			l.t.Fatalf("size %d: returned %+v, want length %d (%v)", l.cfg.Size, u, n, known)
		}
	}
	if len(l.open) > 0 {
		return
	}
	if len(l.want) > 0 || l.q.Outstanding() > 0 {
		l.t.Fatalf("size %d: %d chains did not come back", l.cfg.Size, len(l.want))
	}
	c := l.drv.QueueConfig(l.writable)
	c.NextAvail = l.q.State()
	var err error
	if l.q, err = virtqueue.New(c); err != nil {
		l.t.Fatal(err)
	}
	l.taken = l.taken[:0]
}

// virtio 1.2, 2.7.9 and 2.8.8: in a queue to be read, one used element stands for
// a batch; a dropped chain, which nobody has used, has one of its own. A queue to
// be written has one for each chain.
func TestInOrderBatch(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, writable := range []bool{false, true} {
			t.Run(fmt.Sprintf("packed=%v/write=%v", packed, writable), func(t *testing.T) {
				cfg := virtqtest.Config{Size: 16, Packed: packed, InOrder: true, FirstIndex: 11}
				drv, q := pair(t, cfg, writable)
				_, _, used := drv.Addrs()
				elems := []byte(nil)
				if !packed {
					elems = drv.Memory().Bytes(used+4, 8*16)
				}
				for i := range elems {
					elems[i] = 0xff // no element
				}
				addN(t, drv, writable, 3)
				addN(t, drv, !writable, 1)
				addN(t, drv, writable, 4)
				var tokens []uint32
				for range 7 {
					_, token := take(t, q)
					tokens = append(tokens, token)
				}
				for _, i := range []int{6, 1, 0, 4, 3, 2, 5} {
					q.Return(tokens[i], 0)
				}
				q.Publish()
				want := 3
				if writable {
					want = 8
				}
				if got := usedElements(drv, 8); got != want {
					t.Errorf("%d used elements, want %d", got, want)
				}
				for range 8 {
					reap(t, drv)
				}
				if drv.Free() != 16 {
					t.Errorf("%d free", drv.Free())
				}
			})
		}
	}
}

// usedElements counts what the device has written for the n chains of one
// descriptor since the start at 11. The slots of a packed ring that one used
// descriptor stands for are marked alike.
func usedElements(drv *virtqtest.Driver, n int) (written int) {
	var before uint16
	for pos := uint16(11); pos < uint16(11+n); pos++ {
		if r := drv.Packed(); r != nil {
			id, flags := r.Mark(pos % 16)
			if flags>>15 == flags>>7&1 && (written == 0 || id != before) {
				written++
			}
			before = id
		} else if head, _ := drv.Ring().UsedElem(pos); head != 0xffffffff {
			written++
		}
	}
	return written
}

// With IN_ORDER, State is exact whatever was returned ahead of its turn.
func TestInOrderState(t *testing.T) {
	formats(t, virtqtest.Config{Size: 8}, func(t *testing.T, cfg virtqtest.Config) {
		if !cfg.InOrder {
			return
		}
		drv, q := pair(t, cfg, false)
		addN(t, drv, false, 4)
		var tokens []uint32
		for range 4 {
			_, token := take(t, q)
			tokens = append(tokens, token)
		}
		q.Return(tokens[0], 0)
		q.Return(tokens[2], 0)
		q.Publish()
		want := uint32(1)
		if cfg.Packed {
			want = 0x80018001
		}
		if got := q.State(); got != want {
			t.Errorf("state %#x, want %#x", got, want)
		}
		if u := reap(t, drv); uint32(u.Head) != tokens[0] {
			t.Errorf("returned %d, want %d", u.Head, tokens[0])
		}
		if _, ok, err := drv.Reap(); ok || err != nil {
			t.Errorf("a chain overtook another, error %v", err)
		}
	})
}

// Vectors of an indirect table that lies across regions, in a packed ring.
func TestPackedTableAcrossRegions(t *testing.T) {
	drv, q := pair(t, virtqtest.Config{Size: 7, Packed: true, Indirect: true}, false)
	const table = highAddr - 24
	want := []virtqtest.Buffer{{Addr: lowAddr, Len: 7}, {Addr: highAddr + 64, Len: 9}, {Addr: lowAddr, Len: 5}}
	for i, b := range want {
		for k := range 16 {
			v := byte(0)
			switch {
			case k < 8:
				v = byte(b.Addr >> (8 * k))
			case k == 8:
				v = byte(b.Len)
			}
			drv.Memory().Bytes(table+uint64(16*i+k), 1)[0] = v
		}
	}
	drv.Packed().Show(0, virtqtest.PackedDesc{Addr: table, Len: 48, Flags: virtqtest.FlagIndirect | virtqtest.FlagAvail})
	vecs, _, err := q.Take(make([]iov.Vec, 0, 8))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ranges(t, drv.Memory().Map(), vecs)); diff != "" {
		t.Errorf("wrong buffers (-want +got):\n%s", diff)
	}
}
