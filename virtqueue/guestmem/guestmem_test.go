package guestmem_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const userOffset = 0x7f0000000000

// region makes a region whose bytes are the low bytes of their guest addresses.
func region(guestAddr, size uint64) guestmem.Region {
	mem := make([]byte, size)
	for i := range mem {
		mem[i] = byte(guestAddr + uint64(i))
	}
	return guestmem.Region{GuestAddr: guestAddr, Size: size, UserAddr: guestAddr + userOffset, Mem: mem}
}

func TestNewRefuses(t *testing.T) {
	with := func(change func(r *guestmem.Region)) guestmem.Region {
		r := region(0x5000, 0x1000)
		change(&r)
		return r
	}
	good := region(0x1000, 0x1000)
	for _, tc := range []struct {
		name string
		r    guestmem.Region
		want string
	}{
		{"no size", with(func(r *guestmem.Region) { r.Size, r.Mem = 0, nil }), "empty"},
		{"guest address wraps", with(func(r *guestmem.Region) { r.GuestAddr = math.MaxUint64 - 0xffe }), "guest address 0xfffffffffffff001 wraps"},
		{"user address wraps", with(func(r *guestmem.Region) { r.UserAddr = math.MaxUint64 - 0xffe }), "user address 0xfffffffffffff001 wraps"},
		{"size wraps", with(func(r *guestmem.Region) { r.Size = math.MaxUint64 }), "wraps"},
		{"mapping too short", with(func(r *guestmem.Region) { r.Mem = r.Mem[1:] }), "mapping of 4095 bytes"},
		{"mapping too long", with(func(r *guestmem.Region) { r.Size-- }), "mapping of 4096 bytes"},
		{"same guest address", with(func(r *guestmem.Region) { r.GuestAddr = 0x1000 }), "guest addresses 0x1000 and 0x1000 overlap"},
		{"guest addresses overlap at the end", with(func(r *guestmem.Region) { r.GuestAddr = 0x1fff }), "guest addresses 0x1000 and 0x1fff overlap"},
		{"guest addresses overlap at the start", with(func(r *guestmem.Region) { r.GuestAddr = 1 }), "guest addresses 0x1 and 0x1000 overlap"},
		{"user addresses overlap", with(func(r *guestmem.Region) { r.UserAddr = good.UserAddr + 1 }), "user addresses"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, rs := range [][]guestmem.Region{{good, tc.r}, {tc.r, good}} {
				if _, err := guestmem.New(rs); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want one with %q", err, tc.want)
				}
			}
		})
	}
}

// maps are two maps with the same holes: one scanned, one searched.
func maps(t *testing.T) map[string]*guestmem.Map {
	t.Helper()
	few := []guestmem.Region{region(0x6000, 0x1000), region(0x1000, 0x1000), region(0x2000, 0x10), region(0x2010, 0x1000)}
	many := append([]guestmem.Region(nil), few...)
	for i := range uint64(500) {
		many = append(many, region(0x100000+i*0x20, 0x10))
	}
	out := map[string]*guestmem.Map{}
	for name, rs := range map[string][]guestmem.Region{"few": few, "many": many} {
		m, err := guestmem.New(rs)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Regions()) != len(rs) {
			t.Errorf("%d regions, want %d", len(m.Regions()), len(rs))
		}
		out[name] = m
	}
	return out
}

func TestLookup(t *testing.T) {
	for name, m := range maps(t) {
		for _, tc := range []struct {
			name    string
			addr, n uint64
			pieces  []uint64 // nil: not mapped
		}{
			{"first byte", 0x1000, 1, []uint64{1}},
			{"a whole region", 0x6000, 0x1000, []uint64{0x1000}},
			{"over one border", 0x1fff, 2, []uint64{1, 1}},
			{"over two borders", 0x1ffe, 0x22, []uint64{2, 0x10, 0x10}},
			{"all that is contiguous", 0x1000, 0x2010, []uint64{0x1000, 0x10, 0x1000}},
			{"one byte more than that", 0x1000, 0x2011, nil},
			{"last byte", 0x300f, 1, []uint64{1}},
			{"just behind", 0x3010, 1, nil},
			{"just before", 0xfff, 1, nil},
			{"from before into it", 0xfff, 2, nil},
			{"out of the last region", 0x6fff, 2, nil},
			{"over a hole", 0x3000, 0x4000, nil},
			{"the end of the address space", math.MaxUint64, 1, nil},
			{"round the end of the address space", math.MaxUint64 - 7, 0x2000, nil},
			{"as long as can be", 0x1000, math.MaxUint64, nil},
		} {
			t.Run(name+"/"+tc.name, func(t *testing.T) { testLookup(t, m, tc.addr, tc.n, tc.pieces) })
		}
	}
}

func testLookup(t *testing.T, m *guestmem.Map, addr, n uint64, pieces []uint64) {
	var want, got []byte
	for i := range min(n, 0x4000) {
		want = append(want, byte(addr+i))
	}
	before := []iov.Vec{{Len: 1}}
	vecs, err := m.AppendVecs(before, addr, n)
	out := make([]byte, len(want))
	copyErr := m.CopyOut(out, addr)
	if pieces == nil {
		var re *guestmem.RangeError
		if !errors.As(err, &re) || *re != (guestmem.RangeError{Space: "guest", Addr: addr, Len: n}) || !errors.Is(err, guestmem.ErrUnmapped) {
			t.Errorf("AppendVecs: %v", err)
		}
		if len(vecs) != 1 {
			t.Errorf("dst has %d vectors after an error", len(vecs))
		}
		if !errors.Is(copyErr, guestmem.ErrUnmapped) {
			t.Errorf("CopyOut: %v", copyErr)
		}
		return
	}
	if err != nil || copyErr != nil {
		t.Fatal(err, copyErr)
	}
	var lens []uint64
	for _, v := range vecs[1:] {
		lens = append(lens, v.Len)
		got = append(got, v.Bytes()...)
	}
	if diff := cmp.Diff(pieces, lens); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
	if !cmp.Equal(want, got) || !cmp.Equal(want, out) {
		t.Error("wrong bytes")
	}
}

func TestSlices(t *testing.T) {
	for name, m := range maps(t) {
		for _, tc := range []struct {
			addr, n uint64
			ok      bool
		}{
			{0x1000, 0x1000, true},
			{0x1ff0, 0x10, true},
			{0x1ff0, 0x11, false}, // contiguous, but two regions
			{0x6fff, 1, true},
			{0x6fff, 2, false},
			{0x7000, 1, false},
			{0xfff, 1, false},
			{0, 1, false},
			{0x1000, math.MaxUint64, false},
		} {
			s, err := m.Slice(tc.addr, tc.n)
			u, userErr := m.SliceUser(tc.addr+userOffset, tc.n)
			if (err == nil) != tc.ok || (userErr == nil) != tc.ok {
				t.Errorf("%s: %#x+%#x: errors %v, %v; want success %v", name, tc.addr, tc.n, err, userErr, tc.ok)
			}
			if !tc.ok {
				if !errors.Is(err, guestmem.ErrUnmapped) || !errors.Is(userErr, guestmem.ErrUnmapped) {
					t.Errorf("%s: errors %v, %v", name, err, userErr)
				}
				continue
			}
			if uint64(len(s)) != tc.n || cap(s) != len(s) || &s[0] != &u[0] || len(u) != len(s) || s[0] != byte(tc.addr) {
				t.Errorf("%s: %#x+%#x: wrong slices of %d and %d bytes", name, tc.addr, tc.n, len(s), len(u))
			}
		}
	}
}

func TestTranslation(t *testing.T) {
	for name, m := range maps(t) {
		for _, addr := range []uint64{0x1000, 0x200f, 0x2010, 0x6fff} {
			user, err := m.GuestToUser(addr)
			if err != nil || user != addr+userOffset {
				t.Errorf("%s: GuestToUser(%#x) = %#x, %v", name, addr, user, err)
			}
			guest, err := m.UserToGuest(user)
			if err != nil || guest != addr {
				t.Errorf("%s: UserToGuest(%#x) = %#x, %v", name, user, guest, err)
			}
			if r := m.Find(addr); r == nil || addr-r.GuestAddr >= r.Size {
				t.Errorf("%s: Find(%#x) = %v", name, addr, r)
			}
		}
		for _, addr := range []uint64{0, 0xfff, 0x3010, 0x7000, math.MaxUint64} {
			if _, err := m.GuestToUser(addr); !errors.Is(err, guestmem.ErrUnmapped) {
				t.Errorf("%s: GuestToUser(%#x): %v", name, addr, err)
			}
			if _, err := m.UserToGuest(addr); !errors.Is(err, guestmem.ErrUnmapped) {
				t.Errorf("%s: UserToGuest(%#x): %v", name, addr, err)
			}
			if r := m.Find(addr); r != nil {
				t.Errorf("%s: Find(%#x) = %v", name, addr, r)
			}
		}
	}
}

// TestHostToGuest: each byte of a vector leads back to where it came from.
func TestHostToGuest(t *testing.T) {
	for name, m := range maps(t) {
		for _, r := range m.Regions() {
			for _, off := range []uint64{0, 1, r.Size / 2, r.Size - 1} {
				vecs, err := m.AppendVecs(nil, r.GuestAddr+off, 1)
				if err != nil {
					t.Fatal(err)
				}
				if got, ok := m.HostToGuest(vecs[0].Base); !ok || got != r.GuestAddr+off {
					t.Errorf("%s: HostToGuest is %#x, %v, want %#x", name, got, ok, r.GuestAddr+off)
				}
			}
		}
		outside := make([]byte, 1<<16)
		if got, ok := m.HostToGuest(&outside[0]); ok {
			t.Errorf("%s: other memory is at guest address %#x", name, got)
		}
	}
	empty, err := guestmem.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := empty.HostToGuest(new(byte)); ok {
		t.Error("an empty map finds something")
	}
}

func TestEmptyMap(t *testing.T) {
	m, err := guestmem.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.AppendVecs(nil, 0, 1); !errors.Is(err, guestmem.ErrUnmapped) {
		t.Errorf("AppendVecs: %v", err)
	}
	if vecs, err := m.AppendVecs(nil, 0, 0); len(vecs) != 0 || err != nil {
		t.Errorf("no bytes: %v, %v", vecs, err)
	}
}

// A Map does not change with the slice it was made of.
func TestMapIsItsOwn(t *testing.T) {
	rs := []guestmem.Region{region(0x1000, 0x1000)}
	m, err := guestmem.New(rs)
	if err != nil {
		t.Fatal(err)
	}
	rs[0] = region(0x9000, 0x10)
	m.Regions()[0] = rs[0]
	if m.Find(0x1000) == nil || m.Find(0x9000) != nil {
		t.Error("the map has changed")
	}
}

func TestNoAllocations(t *testing.T) {
	for name, m := range maps(t) {
		dst, buf := make([]iov.Vec, 0, 8), make([]byte, 0x22)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := m.AppendVecs(dst, 0x1ffe, 0x22); err != nil {
				t.Fatal(err)
			}
			if err := m.CopyOut(buf, 0x1ffe); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
