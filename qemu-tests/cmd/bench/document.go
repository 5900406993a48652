package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/jsonfile"
)

// document is the JSON file. Everything in a line follows from its samples.
type document struct {
	Time time.Time `json:"time"`
	Rows []*line   `json:"rows"`
}

// line compares medians. Range is the smallest and the largest ratio of values that were taken side by side.
type line struct {
	Name    string                `json:"name"`
	Guest   string                `json:"guest"`
	MTU     int                   `json:"mtu"`
	Ours    float64               `json:"ours"`
	Peers   map[string]float64    `json:"peers"`
	Ratio   map[string]float64    `json:"ratio"`
	Range   map[string][2]float64 `json:"ratio_range"`
	Unit    string                `json:"unit"`
	Better  string                `json:"better"`
	Runs    int                   `json:"runs"`
	Failed  map[string]int        `json:"failed,omitempty"`  // runs of each backend that gave no value
	Skipped map[string]string     `json:"skipped,omitempty"` // why a peer is not in this row
	Samples map[string][]sample   `json:"samples"`           // of each backend, in the order of the runs
}

// sample is a value, NaN (in JSON: null) if that run failed.
type sample float64

// MarshalJSON writes null for NaN, which JSON has no number for.
func (s sample) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(s)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(s), 'f', 4, 64), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *sample) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = sample(math.NaN())
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	*s = sample(v)
	return err
}

func readDocument(path string) (*document, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read former values: %w", err)
	}
	d := &document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read former values: %s: %w", path, err)
	}
	return d, nil
}

func (d *document) write(path string) error { return jsonfile.Write(path, d) }

// line returns the line of a row, a new one if need be.
func (d *document) line(r row, guest string, mtu int) *line {
	for _, l := range d.Rows {
		if l.Name == r.name && l.Guest == guest && l.MTU == mtu {
			return l
		}
	}
	l := &line{Name: r.name, Guest: guest, MTU: mtu, Unit: r.unit, Better: "higher"}
	if r.lower {
		l.Better = "lower"
	}
	d.Rows = append(d.Rows, l)
	return l
}

// add adds a backend's values of one run of a test.
func (d *document) add(t *test, guest string, mtu int, backend string, values []float64) {
	for i, r := range t.rows {
		l := d.line(r, guest, mtu)
		if why := cannotRow(backend, r); why != "" {
			l.skip(backend, why)
			continue
		}
		if l.Samples == nil {
			l.Samples = map[string][]sample{}
		}
		l.Samples[backend] = append(l.Samples[backend], sample(values[i]))
		delete(l.Skipped, backend)
	}
}

func (d *document) skip(t *test, guest string, mtu int, backend, why string) {
	for _, r := range t.rows {
		d.line(r, guest, mtu).skip(backend, why)
	}
}

func (l *line) skip(backend, why string) {
	if l.Skipped == nil {
		l.Skipped = map[string]string{}
	}
	l.Skipped[backend] = why
}

// forget gives up former values of a test.
func (d *document) forget(t *test, guest string, mtu int) {
	for _, r := range t.rows {
		l := d.line(r, guest, mtu)
		l.Samples, l.Skipped = nil, nil
	}
}

// align fills up with NaN after a run, so that values of one run stay side by side if a backend was not in all of them.
func (d *document) align(t *test, guest string, mtu int) {
	for _, r := range t.rows {
		l, n := d.line(r, guest, mtu), 0
		for _, s := range l.Samples {
			n = max(n, len(s))
		}
		for backend, s := range l.Samples {
			for len(s) < n {
				s = append([]sample{sample(math.NaN())}, s...)
			}
			l.Samples[backend] = s
		}
	}
}

// update puts the lines into the order of the table and computes what follows from their samples.
func (d *document) update(now time.Time) {
	d.Time = now.UTC().Truncate(time.Second)
	place := map[string]int{}
	for _, t := range tests() {
		for _, r := range t.rows {
			place[r.name] = len(place) + 1
		}
	}
	guests := []string{umlGuest, qemuGuest}
	slices.SortStableFunc(d.Rows, func(a, b *line) int {
		if c := slices.Index(guests, a.Guest) - slices.Index(guests, b.Guest); c != 0 {
			return c
		}
		if a.MTU != b.MTU {
			return a.MTU - b.MTU
		}
		return place[a.Name] - place[b.Name]
	})
	for _, l := range d.Rows {
		l.update()
	}
}

func (l *line) update() {
	own := l.Samples[ours]
	l.Ours, l.Runs = median(own), 0
	l.Peers, l.Ratio, l.Range, l.Failed = map[string]float64{}, map[string]float64{}, map[string][2]float64{}, map[string]int{}
	for backend, s := range l.Samples {
		l.Runs = max(l.Runs, len(s))
		if n := failures(s); n > 0 {
			l.Failed[backend] = n
		}
		if backend == ours || failures(s) == len(s) {
			continue
		}
		l.Peers[backend] = median(s)
		if r := ratio(l.Ours, l.Peers[backend]); r > 0 {
			l.Ratio[backend], l.Range[backend] = r, ratioRange(own, s)
		}
	}
}
