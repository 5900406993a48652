package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMedianAndRatio(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{9, math.NaN(), 7}, 8}} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %v", tt.values, got)
		}
	}
	if got := ratio(1, 0); got != 0 {
		t.Errorf("ratio by nothing is %v", got)
	}
	if got := ratioRange([]float64{2, math.NaN(), 9}, []float64{1, 1, 3, 5}); got != [2]float64{2, 3} {
		t.Errorf("range %v", got)
	}
}

func TestReport(t *testing.T) {
	var s sampleSet
	value := func(v float64) []float64 {
		values := make([]float64, len(rows)+len(usageRows))
		for i := range values {
			values[i] = v
		}
		return values
	}
	for _, v := range []float64{10, 30, 20} {
		s.add("ours", 1500, value(v))
		if v == 20 {
			s[sampleKey{"ours", 1500, 1}][2] = math.NaN()
		}
		s.add("passt", 1500, value(v/2))
	}
	r := s.report("ours", []string{"passt"}, time.Unix(0, 0))
	if want := len(mtus) * (len(rows) + len(usageRows)); len(r.Rows) != want {
		t.Fatalf("%d rows, want %d", len(r.Rows), want)
	}
	want := reportRow{
		Name: rows[0].name, Guest: guestName, MTU: 1500, Ours: 20, Peers: map[string]float64{"passt": 10},
		Ratio: map[string]float64{"passt": 2}, Range: map[string][2]float64{"passt": {2, 2}}, Runs: 3, Unit: "Mbit/s", Better: "higher",
		Failed: map[string]int{},
	}
	if diff := cmp.Diff(want, r.Rows[0]); diff != "" {
		t.Error(diff)
	}
	if got := r.Rows[1]; got.Failed["ours"] != 1 || got.Ours != 20 {
		t.Errorf("a row with a failure: %+v", got)
	}
	if last := r.Rows[len(rows)]; last.Better != "lower" {
		t.Errorf("%s: %s is better", last.Name, last.Better)
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
	if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(back, r, cmpopts.EquateEmpty()) {
		t.Errorf("read back: %v %s", err, cmp.Diff(r, back))
	}
	var table bytes.Buffer
	r.print(&table)
	if lines := strings.Count(table.String(), "\n"); lines != 1+len(r.Rows) {
		t.Errorf("the table has %d lines:\n%s", lines, table.String())
	}
}

func TestScriptMeasuresEveryRow(t *testing.T) {
	s := script(3)
	for i, r := range rows {
		if !strings.Contains(s, fmt.Sprintf("step row%d once%d\n", i, i)) {
			t.Errorf("no step for %s", r.name)
		}
	}
	if strings.Contains(s, "%!") {
		t.Errorf("a command is badly formatted:\n%s", s)
	}
}
