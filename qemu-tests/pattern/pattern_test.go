package pattern

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

func TestReaderIsTheSameHoweverItIsRead(t *testing.T) {
	const n = 1003
	want := Bytes(7, n)
	readers := map[string]io.Reader{
		"one byte at a time": iotest.OneByteReader(Reader(7, n)),
		"halves":             iotest.HalfReader(Reader(7, n)),
		"odd buffer":         io.MultiReader(io.LimitReader(Reader(7, n), 13), bytes.NewReader(want[13:])),
	}
	for name, r := range readers {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Error("bytes differ")
			}
		})
	}
}

func TestSumIsThatOfBytes(t *testing.T) {
	d := NewDigest()
	_, _ = d.Write(Bytes(3, 5000))
	if got, want := Sum(3, 5000), d.Hex(); got != want || d.Bytes != 5000 {
		t.Errorf("Sum = %s, digest of Bytes = %s over %d bytes", got, want, d.Bytes)
	}
	if Sum(3, 5000) == Sum(4, 5000) {
		t.Error("two seeds give the same data")
	}
}
