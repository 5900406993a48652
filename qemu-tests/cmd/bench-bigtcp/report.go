package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// samples holds the values of every run: by MTU, by size, a list for each row.
type samples map[string]map[string][][]float64

// load reads what earlier runs have left in the file, if there is one.
func load(path string) (samples, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return samples{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read earlier runs: %w", err)
	}
	s := samples{}
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read earlier runs from %s: %w", path, err)
	}
	return s, nil
}

func (s samples) save(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("keep the runs: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep the runs: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the runs: %w", err)
	}
	return nil
}

// add adds a run; values that failed are left out.
func (s samples) add(mtu, size string, values []float64) {
	if s[mtu] == nil {
		s[mtu] = map[string][][]float64{}
	}
	of := s[mtu][size]
	for len(of) < len(rows) {
		of = append(of, []float64{})
	}
	for i, v := range values {
		if !math.IsNaN(v) {
			of[i] = append(of[i], v)
		}
	}
	s[mtu][size] = of
}

// mean returns the mean of v and its standard error; 0 where there are too few values.
func mean(v []float64) (m, stderr float64) {
	if len(v) == 0 {
		return 0, 0
	}
	for _, x := range v {
		m += x / float64(len(v))
	}
	for _, x := range v {
		stderr += (x - m) * (x - m)
	}
	if len(v) > 1 {
		stderr = math.Sqrt(stderr / float64(len(v)-1) / float64(len(v)))
	}
	return m, stderr
}

// print writes the means, and what they are to the mean of the first size.
func (s samples) print(w io.Writer, mtu string, sizes []string) {
	for i, r := range rows {
		better := "more is better"
		if r.lower {
			better = "less is better"
		}
		fmt.Fprintf(w, "%s, MTU %s (%s; %s)\n", r.name, mtu, r.unit, better)
		first := 0.0
		for _, size := range sizes {
			v := s[mtu][size]
			if len(v) <= i || len(v[i]) == 0 {
				fmt.Fprintf(w, "  %8s  no value\n", size)
				continue
			}
			m, e := mean(v[i])
			if first == 0 {
				first = m
			}
			fmt.Fprintf(w, "  %8s  mean %9.1f ± %6.1f  %.3f  from %.1f to %.1f, %d runs\n",
				size, m, e, m/first, slices.Min(v[i]), slices.Max(v[i]), len(v[i]))
		}
	}
}
