package virtqtest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

const (
	avail = virtqtest.FlagAvail
	used  = virtqtest.FlagUsed
)

// A chain of three over the end of a ring of four: the flags change with the
// lap, the ID that counts is the last one, and the first descriptor comes last.
func TestPackedChainInMemory(t *testing.T) {
	d := newDriver(t, virtqtest.Config{Size: 4, Packed: true, FirstIndex: 2})
	before := d.Packed().Desc(2)
	id, err := d.Add(bufs(2), bufs(1))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Packed().Desc(2); got != before {
		t.Errorf("the first descriptor is to be seen before Publish: %+v", got)
	}
	d.Publish()
	got := []virtqtest.PackedDesc{d.Packed().Desc(2), d.Packed().Desc(3), d.Packed().Desc(0)}
	want := []virtqtest.PackedDesc{
		{Addr: 0x2000, Len: 10, ID: ^id, Flags: avail | virtqtest.FlagNext},
		{Addr: 0x2001, Len: 11, ID: ^id, Flags: avail | virtqtest.FlagNext},
		{Addr: 0x2000, Len: 10, ID: id, Flags: used | virtqtest.FlagWrite},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("descriptors (-want +got):\n%s", diff)
	}
	if d.Free() != 1 {
		t.Errorf("%d free, want 1", d.Free())
	}
	if _, err := d.AddSplit(1, bufs(2), nil); err == nil {
		t.Error("a list that is direct and indirect")
	}
}

func TestPackedIndirect(t *testing.T) {
	d := newDriver(t, virtqtest.Config{Size: 3, Packed: true, Indirect: true, InOrder: true})
	if _, err := d.Add(bufs(1), nil); err != nil {
		t.Fatal(err)
	}
	id, err := d.Add(bufs(2), nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Publish()
	got := d.Packed().Desc(1)
	if got.Flags&virtqtest.FlagIndirect == 0 || got.Len != 32 || got.ID != 1 || id != 1 {
		t.Errorf("descriptor %+v of chain %d", got, id)
	}
}

// The driver finds out a device that returns what it does not hold.
func TestPackedReapChecksTheDevice(t *testing.T) {
	for _, tc := range []struct {
		name string
		desc virtqtest.PackedDesc
		want string
		ok   bool
	}{
		{"fine", virtqtest.PackedDesc{ID: 0, Len: 10, Flags: avail | used | virtqtest.FlagWrite}, "", true},
		{"nothing written", virtqtest.PackedDesc{ID: 0, Len: 99, Flags: avail | used}, "", true},
		{"not used yet", virtqtest.PackedDesc{ID: 0, Flags: avail}, "", false},
		{"used in another lap", virtqtest.PackedDesc{ID: 0}, "", false},
		{"not out", virtqtest.PackedDesc{ID: 1, Flags: avail | used}, "no chain", false},
		{"beyond the ring", virtqtest.PackedDesc{ID: 3, Flags: avail | used}, "no chain", false},
		{"too long", virtqtest.PackedDesc{ID: 0, Len: 11, Flags: avail | used | virtqtest.FlagWrite}, "wrote 11 bytes to a chain of 10", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDriver(t, virtqtest.Config{Size: 3, Packed: true})
			if _, err := d.Add(nil, bufs(1)); err != nil {
				t.Fatal(err)
			}
			d.Publish()
			d.Packed().Show(0, tc.desc)
			_, ok, err := d.Reap()
			if ok != tc.ok || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, error %v; want %v, %q", ok, err, tc.ok, tc.want)
			}
		})
	}
}

// With IN_ORDER, one used element returns all chains up to the one it names.
func TestInOrderReap(t *testing.T) {
	for _, packed := range []bool{false, true} {
		d := newDriver(t, virtqtest.Config{Size: 4, Packed: packed, InOrder: true})
		for range 4 {
			if _, err := d.Add(nil, bufs(1)); err != nil {
				t.Fatal(err)
			}
		}
		d.Publish()
		if packed {
			d.Packed().Show(0, virtqtest.PackedDesc{ID: 2, Len: 4, Flags: avail | used | virtqtest.FlagWrite})
		} else {
			returned(d, virtqtest.Used{Head: 2, Len: 4})
			d.Ring().SetUsedIdx(3)
		}
		var got []virtqtest.Used
		for {
			u, ok, err := d.Reap()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			got = append(got, u)
		}
		want := []virtqtest.Used{{Head: 0, Len: 10}, {Head: 1, Len: 10}, {Head: 2, Len: 4}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("packed %v: returned (-want +got):\n%s", packed, diff)
		}
	}
	d := newDriver(t, virtqtest.Config{Size: 4, InOrder: true})
	for range 2 {
		if _, err := d.Add(nil, bufs(1)); err != nil {
			t.Fatal(err)
		}
	}
	d.Publish()
	returned(d, virtqtest.Used{Head: 1})
	d.Reap()
	if _, _, err := d.Reap(); err == nil {
		t.Error("a batch of two though the used index says one")
	}
}
