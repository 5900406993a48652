package searchlist

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

func TestClean(t *testing.T) {
	label63, label64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	tests := []struct {
		name     string
		in, want []string
	}{
		{"empty list", nil, nil},
		{"trailing dot", []string{"a.example", "b.example."}, []string{"a.example", "b.example"}},
		{"empty names and the root", []string{"", ".", "a."}, []string{"a"}},
		{"empty label", []string{"a..example", ".example", "a.example.."}, nil},
		{"repeated, other case", []string{"a.example", "A.Example."}, []string{"a.example"}},
		{"RFC 1035 2.3.4 label length", []string{label63 + ".x", label64 + ".x"}, []string{label63 + ".x"}},
		{
			"RFC 1035 2.3.4 name length",
			[]string{strings.Repeat("abc.", 63) + "a", strings.Repeat("abc.", 63) + "ab"},
			[]string{strings.Repeat("abc.", 63) + "a"},
		},
		{"not visible ASCII", []string{"a b.example", "bücher.example", "a\x00b", "x\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Clean(tt.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if n := len(Clean(numbered(1000))); n != maxNames {
		t.Errorf("%d of 1000 names, want %d", n, maxNames)
	}
}

func numbered(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("dept%d.corp.example", i))
	}
	return out
}

func TestCompress(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want string
		ends []int
	}{
		{"RFC 1035 3.1 one name", []string{"a.bc"}, "\x01a\x02bc\x00", []int{6}},
		{"RFC 1035 4.1.4 common suffix", []string{"a.bc", "d.bc"}, "\x01a\x02bc\x00\x01d\xc0\x02", []int{6, 10}},
		{"suffix of an earlier name", []string{"a.bc", "bc"}, "\x01a\x02bc\x00\xc0\x02", []int{6, 8}},
		{"case does not matter", []string{"a.bc", "d.BC"}, "\x01a\x02bc\x00\x01d\xc0\x02", []int{6, 10}},
		{
			"no pointer to a pointer",
			[]string{"bc", "a.bc", "d.a.bc"},
			"\x02bc\x00\x01a\xc0\x00\x01d\x01a\xc0\x00",
			[]int{4, 8, 14},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, ends := Compress(tt.in, 1000)
			if string(data) != tt.want {
				t.Errorf("got %q, want %q", data, tt.want)
			}
			if diff := cmp.Diff(tt.ends, ends); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompressStopsAtNameBorder(t *testing.T) {
	names := numbered(20)
	full, ends := Compress(names, 10000)
	for limit := range len(full) + 2 {
		data, e := Compress(names, limit)
		if len(data) > limit || !bytes.HasPrefix(full, data) {
			t.Fatalf("limit %d: %d bytes", limit, len(data))
		}
		if n := len(e); n > 0 && e[n-1] != len(data) || n < len(ends) && ends[n] <= limit {
			t.Fatalf("limit %d: %d names in %d bytes", limit, n, len(data))
		}
	}
}

func TestSplitAtNameBorders(t *testing.T) {
	data, ends := Compress(numbered(100), 10000)
	border := map[int]bool{}
	for _, e := range ends {
		border[e] = true
	}
	pos, pieces := 0, Split(data, ends, 255)
	for i, p := range pieces {
		if len(p) > 255 || len(p) == 0 {
			t.Fatalf("piece %d has %d bytes", i, len(p))
		}
		if pos += len(p); !border[pos] {
			t.Errorf("piece %d ends inside a name", i)
		}
	}
	if !bytes.Equal(bytes.Join(pieces, nil), data) {
		t.Error("RFC 3396 section 7: the pieces do not add up")
	}
	if n := len(Split(make([]byte, 600), nil, 255)); n != 3 {
		t.Errorf("600 bytes without borders gave %d pieces", n)
	}
	if Split(nil, nil, 255) != nil {
		t.Error("pieces of nothing")
	}
}

func FuzzCompress(f *testing.F) {
	f.Add("a.example b.example. a.example", 100)
	f.Add("x.y.z y.z z x.y.z.", 20)
	f.Add(strings.Join(numbered(30), " "), 312)
	f.Fuzz(func(t *testing.T, line string, limit int) {
		names := Clean(strings.Fields(line))
		data, ends := Compress(names, limit%5000)
		if !bytes.Equal(bytes.Join(Split(data, ends, 255), nil), data) {
			t.Fatal("the pieces do not add up")
		}
		got, err := rfc1035label.FromBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		want := names[:len(ends)]
		if !slices.EqualFunc(want, got.Labels, strings.EqualFold) {
			t.Fatalf("got %q, want %q", got.Labels, want)
		}
	})
}
