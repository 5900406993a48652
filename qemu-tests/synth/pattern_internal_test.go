package synth

import (
	"encoding/binary"
	"testing"
)

// The sums made beforehand agree with those made byte by byte (RFC 1071).
func TestPayloadSum(t *testing.T) {
	var p payload
	mem := make([]byte, 2*patternBytes)
	p.init(0, mem)
	for _, c := range []struct{ place, n int }{
		{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {1, 3}, {17, 1460}, {18, 1460}, {65535, 65495}, {65535, 65494}, {0, 65535},
	} {
		b := mem[c.place : c.place+c.n]
		var want uint32
		for i := 0; i+1 < len(b); i += 2 {
			want += uint32(binary.BigEndian.Uint16(b[i:]))
			want = want>>16 + want&0xffff
		}
		if len(b)%2 == 1 {
			want += uint32(b[len(b)-1]) << 8
		}
		if got := fold(p.sum(c.place, c.n)); got != fold(want) {
			t.Errorf("sum of %d bytes from %d on is %#x, want %#x", c.n, c.place, got, fold(want))
		}
	}
}

func TestPatternRepeats(t *testing.T) {
	a, b := make([]byte, 1000), make([]byte, 1000)
	Pattern(a, 70_000)
	Pattern(b, 70_000+3*patternBytes)
	if string(a) != string(b) {
		t.Error("the pattern does not repeat")
	}
	Pattern(b, 70_001)
	if string(a) == string(b) {
		t.Error("the pattern does not show a slip")
	}
}

func TestDue(t *testing.T) {
	var got []int
	for waits := range 40 {
		if due(waits, 2) {
			got = append(got, waits)
		}
	}
	want := []int{2, 4, 8, 16, 32}
	if len(got) != len(want) {
		t.Fatalf("due at %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("due at %v, want %v", got, want)
		}
	}
}
