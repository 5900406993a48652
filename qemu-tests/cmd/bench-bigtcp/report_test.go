package main

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin", "runs.json")
	s, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	s.add("1500", "off", []float64{100, 5, 6, 7, 8})
	if err := s.save(path); err != nil {
		t.Fatal(err)
	}
	if s, err = load(path); err != nil { // a second call goes on
		t.Fatal(err)
	}
	s.add("1500", "off", []float64{200, 5, math.NaN(), 7, 8})
	s.add("1500", "131072", []float64{300, 5, 6, 7, 8})
	var b bytes.Buffer
	s.print(&b, "1500", []string{"off", "131072", "9"})
	for _, want := range []string{
		"off  mean     150.0 ±   50.0  1.000  from 100.0 to 200.0, 2 runs",
		"131072  mean     300.0 ±    0.0  2.000  from 300.0 to 300.0, 1 runs",
		"off  mean       6.0 ±    0.0  1.000  from 6.0 to 6.0, 1 runs",
		"9  no value",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string][]float64{
		"3661.01,280,354\n": {3661.01, 280, 354},
		"1, 2 ,x":           {1, 2, math.NaN()},
		"":                  {math.NaN(), math.NaN(), math.NaN()},
	} {
		got := numbers(text, 3)
		for i := range want {
			if got[i] != want[i] && !(math.IsNaN(got[i]) && math.IsNaN(want[i])) {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
	}
}
