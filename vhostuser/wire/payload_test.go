package wire

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// layouts holds each payload with the bytes that it must become on a
// little-endian machine.
var layouts = []struct {
	name  string
	value Payload
	empty Payload
	bytes []byte
}{
	{"u64", ptr(U64(0x0807060504030201)), new(U64), []byte{1, 2, 3, 4, 5, 6, 7, 8}},
	{"vring state", &VringState{Index: 1, Num: 256}, new(VringState), []byte{1, 0, 0, 0, 0, 1, 0, 0}},
	{
		"vring addr",
		&VringAddr{Index: 1, Flags: 2, Desc: 3, Used: 4, Avail: 5, Log: 6},
		new(VringAddr),
		words32(1, 2, 3, 0, 4, 0, 5, 0, 6, 0),
	},
	{"log", &Log{Size: 1, Offset: 2}, new(Log), words32(1, 0, 2, 0)},
	{
		"single region",
		&SingleRegion{Region{GuestAddr: 1, Size: 2, UserAddr: 3, MmapOffset: 4}},
		new(SingleRegion),
		words32(0, 0, 1, 0, 2, 0, 3, 0, 4, 0),
	},
	{
		"memory table",
		&MemTable{Regions: []Region{{GuestAddr: 1, Size: 2, UserAddr: 3, MmapOffset: 4}, {GuestAddr: 1 << 32}}},
		new(MemTable),
		words32(2, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0),
	},
	{
		"config",
		&Config{Offset: 1, Size: 2, Flags: 3, Data: []byte{4, 5}},
		new(Config),
		append(words32(1, 2, 3), 4, 5),
	},
	{
		"header",
		&Header{Request: SetMemTable, Flags: 9, Size: 40},
		new(Header),
		words32(5, 9, 40),
	},
}

func ptr[T any](v T) *T { return &v }

func words32(ws ...uint32) (b []byte) {
	for _, w := range ws {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return b
}

func TestLayouts(t *testing.T) {
	for _, tc := range layouts {
		t.Run(tc.name, func(t *testing.T) {
			if got := Encode(tc.value); !bytes.Equal(got, tc.bytes) {
				t.Errorf("encoded as %x, want %x", got, tc.bytes)
			}
			if err := Decode(tc.bytes, tc.empty); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.value, tc.empty); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLengths: each payload notices what is missing, and what is too much
// unless its layout takes all that follows.
func TestLengths(t *testing.T) {
	for _, tc := range layouts {
		fixed := tc.bytes
		if tc.name == "config" {
			fixed = fixed[:ConfigHead]
		}
		for n := range fixed {
			if err := Decode(fixed[:n], tc.empty); err == nil {
				t.Errorf("%s: %d of %d bytes were accepted", tc.name, n, len(fixed))
			}
		}
		open := tc.name == "config" || tc.name == "memory table"
		if err := Decode(append(bytes.Clone(tc.bytes), 0), tc.empty); (err == nil) != open {
			t.Errorf("%s: one byte too many: %v", tc.name, err)
		}
	}
}

// TestMemTableCount: a table that announces more than follows allocates nothing
// for it.
func TestMemTableCount(t *testing.T) {
	var m MemTable
	if err := Decode(words32(0xffffffff, 0, 1, 2, 3, 4), &m); err == nil || m.Regions != nil {
		t.Errorf("%v, %d regions", err, len(m.Regions))
	}
}

func TestNames(t *testing.T) {
	for r, want := range map[Request]string{
		GetFeatures: "GET_FEATURES", GetShmemConfig: "GET_SHMEM_CONFIG", 0: "request 0", 45: "request 45",
	} {
		if got := r.String(); got != want {
			t.Errorf("%d: %q, want %q", uint32(r), got, want)
		}
	}
	seen := map[string]bool{}
	for r := Request(1); r <= LastRequest; r++ {
		if s := r.String(); seen[s] || s == "" {
			t.Errorf("request %d has the name %q, like another one", uint32(r), s)
		}
		seen[r.String()] = true
	}
}

// FuzzDecode: no payload panics, or takes memory that its bytes do not account
// for.
func FuzzDecode(f *testing.F) {
	for i, tc := range layouts {
		f.Add(uint8(i), tc.bytes)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		p := layouts[int(kind)%len(layouts)].empty
		if Decode(b, p) != nil {
			return
		}
		if again := Encode(p); len(again) > len(b) {
			t.Errorf("%d bytes became %d", len(b), len(again))
		}
		if m, ok := p.(*MemTable); ok && len(m.Regions)*RegionSize > len(b) {
			t.Errorf("%d regions from %d bytes", len(m.Regions), len(b))
		}
	})
}
