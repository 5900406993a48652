package iov

import (
	"bytes"
	"testing"
)

func split(b []byte, sizes ...int) []Vec {
	var vs []Vec
	for _, n := range sizes {
		vs = append(vs, Of(b[:n]))
		b = b[n:]
	}
	return vs
}

func TestCopyAcrossPieces(t *testing.T) {
	for _, tc := range []struct {
		name   string
		sizes  []int
		off, n int
		want   string
	}{
		{"whole", []int{3, 3, 4}, 0, 10, "0123456789"},
		{"inside one", []int{10}, 2, 3, "234"},
		{"border to border", []int{3, 3, 4}, 3, 3, "345"},
		{"over a border", []int{3, 3, 4}, 2, 5, "23456"},
		{"empty pieces", []int{0, 3, 0, 7, 0}, 1, 4, "1234"},
		{"past the end", []int{3, 7}, 8, 5, "89"},
		{"behind the end", []int{3, 7}, 10, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := []byte("0123456789")
			vs := split(mem, tc.sizes...)
			dst := make([]byte, tc.n)
			if got := string(dst[:CopyOut(dst, vs, tc.off)]); got != tc.want {
				t.Errorf("CopyOut = %q, want %q", got, tc.want)
			}
			sub := AppendRange(nil, vs, tc.off, tc.n)
			if got := Len(sub); got != len(tc.want) {
				t.Errorf("AppendRange is %d bytes long, want %d", got, len(tc.want))
			}
			var joined []byte
			for _, v := range sub {
				joined = append(joined, v.Bytes()...)
			}
			if string(joined) != tc.want {
				t.Errorf("AppendRange = %q, want %q", joined, tc.want)
			}
			src := bytes.Repeat([]byte{'x'}, tc.n)
			n := CopyIn(vs, tc.off, src)
			if n != len(tc.want) {
				t.Errorf("CopyIn = %d, want %d", n, len(tc.want))
			}
			want := []byte("0123456789")
			copy(want[min(tc.off, 10):], src[:n])
			if !bytes.Equal(mem, want) {
				t.Errorf("memory after CopyIn = %q, want %q", mem, want)
			}
		})
	}
}

func TestSubPanicsOutside(t *testing.T) {
	v := Of(make([]byte, 4))
	for _, r := range [][2]int{{-1, 1}, {0, 5}, {4, 1}, {2, -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Sub(%d, %d) of 4 bytes did not panic", r[0], r[1])
				}
			}()
			v.Sub(r[0], r[1])
		}()
	}
}

func TestNoAllocations(t *testing.T) {
	mem := make([]byte, 4096)
	vs := split(mem, 1000, 1000, 2096)
	dst, scratch := make([]byte, 2000), make([]Vec, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		CopyOut(dst, vs, 500)
		CopyIn(vs, 500, dst)
		scratch = AppendRange(scratch[:0], vs, 500, 2000)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
