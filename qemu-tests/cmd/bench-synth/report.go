package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/jsonfile"
)

// report is the JSON document.
type report struct {
	Time time.Time `json:"time"`
	Rows []line    `json:"rows"`
}

// line compares medians. Range holds the smallest and the largest ratio of a
// single pair of runs.
type line struct {
	Name   string                `json:"name"`
	Guest  string                `json:"guest"`
	MTU    int                   `json:"mtu"`
	Ours   float64               `json:"ours"`
	Peers  map[string]float64    `json:"peers"`
	Ratio  map[string]float64    `json:"ratio"`
	Range  map[string][2]float64 `json:"ratio_range"`
	Runs   int                   `json:"runs"`
	Unit   string                `json:"unit"`
	Better string                `json:"better"`
}

func (s *samples) report(now time.Time) report {
	out := report{Time: now.UTC().Truncate(time.Second)}
	for _, mtu := range s.mtus {
		for i, r := range s.rows {
			out.Rows = append(out.Rows,
				s.line(key{mtu: mtu, row: i}, r.name, r.unit),
				s.line(key{mtu: mtu, row: i, perCPU: true}, r.name+", per CPU second", r.perCPU))
		}
	}
	return out
}

func (s *samples) line(k key, name, unit string) line {
	k.program = s.programs[0].Name
	own := s.values[k]
	l := line{
		Name: name, Guest: "synth", MTU: k.mtu, Ours: median(own), Runs: len(own), Unit: unit, Better: "higher",
		Peers: map[string]float64{}, Ratio: map[string]float64{}, Range: map[string][2]float64{},
	}
	names := []string{plainName}
	for _, p := range s.programs[1:] {
		names = append(names, p.Name)
	}
	for _, name := range names {
		k.program = name
		theirs, ok := s.values[k]
		if !ok {
			continue
		}
		l.Peers[name] = median(theirs)
		l.Ratio[name] = ratio(l.Ours, l.Peers[name])
		l.Range[name] = ratioRange(own, theirs)
	}
	return l
}

// median returns 0 for no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
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
		all = append(all, ratio(a[i], b[i]))
	}
	if len(all) == 0 {
		return [2]float64{}
	}
	return [2]float64{slices.Min(all), slices.Max(all)}
}

func (r report) print(w io.Writer) {
	for _, l := range r.Rows {
		fmt.Fprintf(w, "%6d %-66s %12.2f", l.MTU, l.Name, l.Ours)
		fmt.Fprintf(w, " %-13s", l.Unit)
		for _, name := range slices.Sorted(maps.Keys(l.Peers)) {
			span := l.Range[name]
			fmt.Fprintf(w, "  %s %.2f, ratio %.2f (%.2f to %.2f)", name, l.Peers[name], l.Ratio[name], span[0], span[1])
		}
		fmt.Fprintln(w)
	}
}

func (r report) write(path string) error { return jsonfile.Write(path, r) }
