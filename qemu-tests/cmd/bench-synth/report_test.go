package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(tt.in); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.in, got, tt.want)
		}
	}
}

// The document has the form that reports are read in.
func TestReport(t *testing.T) {
	s := newSamples([]stage.Program{{Name: "ours"}, {Name: "passt"}}, []int{1500}, rows[:1])
	for i := range 3 {
		s.add("ours", 1500, 0, float64(10+i), 30)
		s.add("passt", 1500, 0, 5, 10)
		s.add(plainName, 1500, 0, 20, 40)
	}
	r := s.report(time.Unix(100, 5))
	want := line{
		Name: rows[0].name, Guest: "synth", MTU: 1500, Ours: 11, Runs: 3, Unit: "Gbit/s", Better: "higher",
		Peers: map[string]float64{"passt": 5, plainName: 20},
		Ratio: map[string]float64{"passt": 2.2, plainName: 0.55},
		Range: map[string][2]float64{"passt": {2, 2.4}, plainName: {0.5, 0.6}},
	}
	if diff := cmp.Diff(want, r.Rows[0]); diff != "" || len(r.Rows) != 2 {
		t.Errorf("%d rows, first %s", len(r.Rows), diff)
	}
	path := filepath.Join(t.TempDir(), "new", "bench.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Error(diff)
	}
	var table strings.Builder
	r.print(&table)
	if got := strings.Count(table.String(), "\n"); got != 2 {
		t.Errorf("%d lines:\n%s", got, table.String())
	}
}

func TestChooseRows(t *testing.T) {
	all, err := chooseRows("")
	if err != nil || len(all) != len(rows) {
		t.Errorf("%d rows, error %v", len(all), err)
	}
	if udp, err := chooseRows("^udp"); err != nil || len(udp) != 5 {
		t.Errorf("%d rows, error %v", len(udp), err)
	}
	for _, bad := range []string{"no such row", "("} {
		if _, err := chooseRows(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
