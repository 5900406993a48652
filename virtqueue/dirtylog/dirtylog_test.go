package dirtylog_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/dirtylog"
)

const page = dirtylog.PageSize

func newLog(t testing.TB, bitmap []byte) *dirtylog.Log {
	t.Helper()
	l, err := dirtylog.New(bitmap)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// marked returns the pages whose bits are set, as the specification counts them.
func marked(bitmap []byte) (pages []uint64) {
	for p := range uint64(len(bitmap)) * 8 {
		if bitmap[p/8]&(1<<(p%8)) != 0 {
			pages = append(pages, p)
		}
	}
	return pages
}

func TestMark(t *testing.T) {
	for _, tc := range []struct {
		name    string
		addr, n uint64
		want    []uint64
	}{
		{"nothing", 5 * page, 0, nil},
		{"one byte", 5 * page, 1, []uint64{5}},
		{"last byte of a page", 6*page - 1, 1, []uint64{5}},
		{"a page", 5 * page, page, []uint64{5}},
		{"over a border", 6*page - 1, 2, []uint64{5, 6}},
		{"over the border of a byte", 7 * page, 2 * page, []uint64{7, 8}},
		{"over the border of a word", 31 * page, 2 * page, []uint64{31, 32}},
		{"the last page", 71 * page, page, []uint64{71}},
		{"past the end", 71 * page, 9 * page, []uint64{71}},
		{"behind the end", 72 * page, page, nil},
		{"the last addresses", math.MaxUint64, 1, nil},
		{"round the end of the address space", 70 * page, math.MaxUint64, []uint64{70, 71}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bitmap := make([]byte, 9, 16)
			newLog(t, bitmap).Mark(tc.addr, tc.n)
			if diff := cmp.Diff(tc.want, marked(bitmap)); diff != "" {
				t.Errorf("marked pages (-want +got):\n%s", diff)
			}
			if extra := marked(bitmap[9:12]); extra != nil {
				t.Errorf("bits %v behind the end are set", extra)
			}
		})
	}
}

// TestMarkAsPlain compares random marks with one bit after the other.
func TestMarkAsPlain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := 1 + rnd.IntN(40)
		got, want := make([]byte, size, 64), make([]byte, size)
		l := newLog(t, got)
		for range 3 {
			addr, n := rnd.Uint64N(uint64(size)*9*page), rnd.Uint64N(100*page)
			l.Mark(addr, n)
			covered := true
			for p := addr / page; n > 0 && p <= (addr+n-1)/page; p++ {
				if p >= uint64(size)*8 {
					covered = false
					break
				}
				want[p/8] |= 1 << (p % 8)
			}
			if l.Covers(addr, n) != covered {
				t.Fatalf("Covers(%#x, %#x) is %v with %d bytes", addr, n, !covered, size)
			}
		}
		if !cmp.Equal(got, want) {
			t.Fatalf("pages %v, want %v", marked(got), marked(want))
		}
	}
}

func TestCovers(t *testing.T) {
	l := newLog(t, make([]byte, 4)) // 32 pages
	for _, tc := range []struct {
		addr, n uint64
		want    bool
	}{
		{0, 32 * page, true},
		{0, 32*page + 1, false},
		{32*page - 1, 1, true},
		{32 * page, 1, false},
		{math.MaxUint64, 0, true},
		{math.MaxUint64, 2, false},
		{1, math.MaxUint64, false},
	} {
		if got := l.Covers(tc.addr, tc.n); got != tc.want {
			t.Errorf("Covers(%#x, %#x) = %v", tc.addr, tc.n, got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	odd := make([]byte, 64)
	for name, bitmap := range map[string][]byte{
		"empty":            {},
		"not aligned":      odd[1:33],
		"part of a word":   odd[:5:6],
		"no whole word":    odd[:3:3],
		"two bytes beyond": odd[2:6],
	} {
		if _, err := dirtylog.New(bitmap); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestMarkersAndReader: what several goroutines mark in the same words, while
// another one takes bits out, comes out once for each mark at least.
func TestMarkersAndReader(t *testing.T) {
	words := make([]uint32, 4)
	bitmap := bytesOf(words)
	l := newLog(t, bitmap)
	const rounds = 20000
	var seen [128]atomic.Bool
	var marking sync.WaitGroup
	for m := range 4 {
		marking.Go(func() {
			for i := range rounds {
				p := uint64(i*4+m) % 128
				l.Mark(p*page, 1)
			}
		})
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	take := func() {
		for i := range words {
			got := atomic.SwapUint32(&words[i], 0)
			for b := range 32 {
				if got&(1<<b) != 0 {
					seen[i*32+b].Store(true)
				}
			}
		}
	}
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				take()
			}
		}
	}()
	marking.Wait()
	close(stop)
	<-stopped
	take()
	for p := range seen {
		if !seen[p].Load() {
			t.Errorf("page %d was lost", p)
		}
	}
}

func BenchmarkMark(b *testing.B) {
	l := newLog(b, make([]byte, 1<<15))
	for b.Loop() {
		l.Mark(123*page, 1500)
	}
}
