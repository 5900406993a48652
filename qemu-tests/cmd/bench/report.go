package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const guestName = "uml-7.2"

// sampleSet holds the values of every run.
type sampleSet map[sampleKey][]float64

type sampleKey struct {
	backend string
	mtu     int
	row     int
}

func (s *sampleSet) add(backend string, mtu int, values []float64) {
	if *s == nil {
		*s = sampleSet{}
	}
	for i, v := range values {
		k := sampleKey{backend, mtu, i}
		(*s)[k] = append((*s)[k], v)
	}
}

// report is the JSON document.
type report struct {
	Time time.Time   `json:"time"`
	Rows []reportRow `json:"rows"`
}

// reportRow compares medians; Range is the smallest and the largest ratio of a single pair of runs.
type reportRow struct {
	Name   string                `json:"name"`
	Guest  string                `json:"guest"`
	MTU    int                   `json:"mtu"`
	Ours   float64               `json:"ours"`
	Peers  map[string]float64    `json:"peers"`
	Ratio  map[string]float64    `json:"ratio"`
	Range  map[string][2]float64 `json:"ratio_range"`
	Runs   int                   `json:"runs"`
	Failed map[string]int        `json:"failed,omitempty"` // runs of each backend that gave no value
	Unit   string                `json:"unit"`
	Better string                `json:"better"`
}

func (s sampleSet) report(ours string, peers []string, now time.Time) report {
	out := report{Time: now.UTC().Truncate(time.Second)}
	for _, mtu := range mtus {
		for i, r := range slices.Concat(rows, usageRows) {
			own := s[sampleKey{ours, mtu, i}]
			line := reportRow{
				Name: r.name, Guest: guestName, MTU: mtu, Ours: median(own), Runs: len(own), Unit: r.unit, Better: "higher",
				Peers: map[string]float64{}, Ratio: map[string]float64{}, Range: map[string][2]float64{},
				Failed: map[string]int{},
			}
			if i >= len(rows) {
				line.Better = "lower"
			}
			for _, b := range append([]string{ours}, peers...) {
				if n := failures(s[sampleKey{b, mtu, i}]); n > 0 {
					line.Failed[b] = n
				}
			}
			for _, p := range peers {
				theirs := s[sampleKey{p, mtu, i}]
				line.Peers[p] = median(theirs)
				line.Ratio[p] = ratio(line.Ours, line.Peers[p])
				line.Range[p] = ratioRange(own, theirs)
			}
			out.Rows = append(out.Rows, line)
		}
	}
	return out
}

func failures(values []float64) int {
	n := 0
	for _, v := range values {
		if math.IsNaN(v) {
			n++
		}
	}
	return n
}

// median leaves out NaN, and returns 0 for no values.
func median(values []float64) float64 {
	v := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratio is rounded, and 0 where there is none.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(a/b*1000) / 1000
}

func ratioRange(a, b []float64) [2]float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		if r := ratio(a[i], b[i]); !math.IsNaN(r) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return [2]float64{}
	}
	return [2]float64{slices.Min(all), slices.Max(all)}
}

func (r report) print(w io.Writer) {
	fmt.Fprintf(w, "%-34s %6s %10s %10s %-7s %6s  %s\n", "guest "+guestName, "MTU", "ours", "passt", "", "ratio", "of single runs")
	for _, l := range r.Rows {
		span := l.Range["passt"]
		failed := ""
		for b, n := range l.Failed {
			failed += fmt.Sprintf(", %d of %d runs of %s FAILED", n, l.Runs, b)
		}
		fmt.Fprintf(w, "%-34s %6d %10.1f %10.1f %-7s %6.2f  %.2f to %.2f%s\n",
			l.Name, l.MTU, l.Ours, l.Peers["passt"], l.Unit, l.Ratio["passt"], span[0], span[1], failed)
	}
}

func (r report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
