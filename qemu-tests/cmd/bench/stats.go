package main

import (
	"math"
	"slices"
)

// values returns the samples that there are, in order of size.
func values(all []sample) []float64 {
	var out []float64
	for _, s := range all {
		if !math.IsNaN(float64(s)) {
			out = append(out, float64(s))
		}
	}
	slices.Sort(out)
	return out
}

func failures(all []sample) int { return len(all) - len(values(all)) }

// median leaves out NaN, and returns 0 for no values.
func median(all []sample) float64 {
	v := values(all)
	if len(v) == 0 {
		return 0
	}
	return math.Round((v[(len(v)-1)/2]+v[len(v)/2])/2*1e4) / 1e4
}

// ratio is rounded, and 0 where there is none.
func ratio(a, b float64) float64 {
	if b == 0 || math.IsNaN(a) || math.IsNaN(b) {
		return 0
	}
	return math.Round(a/b*1000) / 1000
}

// ratioRange returns the smallest and the largest ratio of values of the same run.
func ratioRange(a, b []sample) [2]float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		if r := ratio(float64(a[i]), float64(b[i])); r > 0 {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return [2]float64{}
	}
	return [2]float64{slices.Min(all), slices.Max(all)}
}
