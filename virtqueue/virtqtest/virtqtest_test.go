package virtqtest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

func newDriver(t *testing.T, cfg virtqtest.Config) *virtqtest.Driver {
	t.Helper()
	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0x1000, 1<<18))
	if err != nil {
		t.Fatal(err)
	}
	d, err := virtqtest.NewDriver(mem, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// returned plays the device: it puts elements into the used ring.
func returned(d *virtqtest.Driver, elems ...virtqtest.Used) {
	_, _, addr := d.Ring().Addrs()
	_, idx := d.Ring().Used()
	for _, e := range elems {
		pos := uint64(idx & (d.Ring().Size() - 1))
		b := d.Memory().Bytes(addr+4+8*pos, 8)
		copy(b, []byte{byte(e.Head), byte(e.Head >> 8), 0, 0, byte(e.Len), byte(e.Len >> 8), byte(e.Len >> 16), byte(e.Len >> 24)})
		idx++
	}
	d.Ring().SetUsedIdx(idx)
}

func bufs(n int) []virtqtest.Buffer {
	out := make([]virtqtest.Buffer, n)
	for i := range out {
		out[i] = virtqtest.Buffer{Addr: 0x2000 + uint64(i), Len: uint32(10 + i)}
	}
	return out
}

func TestDirectChainInMemory(t *testing.T) {
	d := newDriver(t, virtqtest.Config{Size: 4})
	head, err := d.Add(bufs(2), bufs(1))
	if err != nil {
		t.Fatal(err)
	}
	var got []virtqtest.Desc
	for i, more := head, true; more; {
		desc := d.Ring().Desc(i)
		got = append(got, desc)
		i, more = desc.Next, desc.Flags&virtqtest.FlagNext != 0
	}
	want := []virtqtest.Desc{
		{Addr: 0x2000, Len: 10, Flags: virtqtest.FlagNext, Next: 1},
		{Addr: 0x2001, Len: 11, Flags: virtqtest.FlagNext, Next: 2},
		{Addr: 0x2000, Len: 10, Flags: virtqtest.FlagWrite},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s", diff)
	}
	if d.Free() != 1 {
		t.Errorf("%d free, want 1", d.Free())
	}
	if _, err := d.Add(bufs(2), nil); !errors.Is(err, virtqtest.ErrFull) {
		t.Errorf("Add of too much: %v", err)
	}
}

func TestIndirectByItself(t *testing.T) {
	d := newDriver(t, virtqtest.Config{Size: 4, Indirect: true, IndirectEntries: 3})
	for _, tc := range []struct {
		bufs  int
		flags uint16
		len   uint32
	}{
		{1, 0, 10},
		{3, virtqtest.FlagIndirect, 48},
	} {
		head, err := d.Add(bufs(tc.bufs), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Ring().Desc(head); got.Flags != tc.flags || got.Len != tc.len {
			t.Errorf("%d buffers: %+v", tc.bufs, got)
		}
	}
	if _, err := d.AddSplit(0, bufs(4), nil); err == nil {
		t.Error("a table longer than it has room for")
	}
	if _, err := d.Add(nil, nil); err == nil {
		t.Error("a chain of nothing")
	}
	if d.Free() != 2 {
		t.Errorf("%d free, want 2", d.Free())
	}
}

// The driver finds out a device that returns what it does not hold.
func TestReapChecksTheDevice(t *testing.T) {
	for _, tc := range []struct {
		name string
		used []virtqtest.Used
		want string
	}{
		{"fine", []virtqtest.Used{{Head: 0, Len: 10}}, ""},
		{"nothing written", []virtqtest.Used{{Head: 0}}, ""},
		{"not out", []virtqtest.Used{{Head: 1}}, "no chain"},
		{"beyond the table", []virtqtest.Used{{Head: 4}}, "no chain"},
		{"twice", []virtqtest.Used{{Head: 0}, {Head: 0}}, "no chain"},
		{"too long", []virtqtest.Used{{Head: 0, Len: 11}}, "wrote 11 bytes to a chain of 10"},
		{"jump", []virtqtest.Used{{}, {}, {}, {}, {}}, "jumped by 5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDriver(t, virtqtest.Config{Size: 4, FirstIndex: 0xffff})
			if _, err := d.Add(nil, bufs(1)); err != nil {
				t.Fatal(err)
			}
			d.Publish()
			returned(d, tc.used...)
			var err error
			for range tc.used {
				if _, _, err = d.Reap(); err != nil {
					break
				}
			}
			if tc.want == "" && (err != nil || d.Free() != 4) {
				t.Errorf("error %v, %d free", err, d.Free())
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// What the driver wants to be called for, as it stands in memory.
func TestCallWishes(t *testing.T) {
	for _, eventIdx := range []bool{false, true} {
		d := newDriver(t, virtqtest.Config{Size: 8, EventIdx: eventIdx})
		for range 8 {
			if _, err := d.Add(nil, bufs(1)); err != nil {
				t.Fatal(err)
			}
		}
		d.Kick()
		if d.EnableCalls() || d.EnableCallsDelayed() {
			t.Errorf("EVENT_IDX %v: returned chains out of nothing", eventIdx)
		}
		returned(d, virtqtest.Used{Head: 0}, virtqtest.Used{Head: 1})
		if !d.EnableCalls() {
			t.Errorf("EVENT_IDX %v: EnableCalls does not see returned chains", eventIdx)
		}
		if got, want := d.EnableCallsDelayed(), !eventIdx; got != want {
			t.Errorf("EVENT_IDX %v: EnableCallsDelayed after a quarter: %v, want %v", eventIdx, got, want)
		}
	}
}

func TestFaultsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range virtqtest.Faults() {
		if f.Name == "" || seen[f.Name] || f.Cause == 0 {
			t.Errorf("fault %q has no name, no cause, or the name of another", f.Name)
		}
		seen[f.Name] = true
	}
	d := newDriver(t, virtqtest.Config{Size: 2})
	if err := virtqtest.Faults()[0].Apply(d, false); err == nil {
		t.Error("a fault fits a ring of two descriptors")
	}
}

func TestMemory(t *testing.T) {
	mem, err := virtqtest.NewMemory(virtqtest.HeapRegion(0x1008, 64), virtqtest.HeapRegion(0x4000, 64))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ n, align, want uint64 }{
		{3, 1, 0x1008}, {8, 16, 0x1010}, {48, 8, 0x1018}, {1, 1, 0x4000}, {32, 32, 0x4020}, {1, 1, 0},
	} {
		got, err := mem.Alloc(tc.n, tc.align)
		if got != tc.want || (err != nil) != (tc.want == 0) {
			t.Errorf("Alloc(%d, %d) = %#x, %v; want %#x", tc.n, tc.align, got, err, tc.want)
		}
	}
	if _, err := virtqtest.NewMemory(virtqtest.HeapRegion(0, 64), virtqtest.HeapRegion(32, 64)); err == nil {
		t.Error("regions that overlap")
	}
	if _, err := virtqtest.NewDriver(mem, virtqtest.Config{Size: 8}); err == nil {
		t.Error("a ring where there is no room")
	}
	if _, err := virtqtest.NewDriver(mem, virtqtest.Config{Size: 6}); err == nil {
		t.Error("a ring of 6 descriptors")
	}
}
