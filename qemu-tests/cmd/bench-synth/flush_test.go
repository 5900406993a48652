package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlushPrograms(t *testing.T) {
	got, err := flushPrograms("/p", "1,64")
	if err != nil || len(got) != 2 || got[1].Name != "64" {
		t.Fatalf("%+v, %v", got, err)
	}
	if line := strings.Join(got[0].Args, " "); !strings.HasSuffix(line, "--tx-batch-frames 1 --flush-frames 1") {
		t.Errorf("%q", line)
	}
	for _, sizes := range []string{"", "0", "1,,2", "many"} {
		if _, err := flushPrograms("/p", sizes); err == nil {
			t.Errorf("%q is taken", sizes)
		}
	}
}

func TestPrintFlush(t *testing.T) {
	programs, err := flushPrograms("/p", "1,64")
	if err != nil {
		t.Fatal(err)
	}
	s := newSamples(programs, []int{1500}, rows[:1])
	for _, v := range []float64{10, 30, 20} {
		s.add("1", 1500, 0, v, v/2)
	}
	var out bytes.Buffer
	s.printFlush(&out)
	want := "| MTU | row | unit | 1 frames | 64 frames |\n|--:|---|---|--:|--:|\n" +
		"| 1500 | tcp guest to host | Gbit/s | 20 (10…30) | – |\n| 1500 | tcp guest to host | Gbit/CPU-s | 10 (5…15) | – |\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
