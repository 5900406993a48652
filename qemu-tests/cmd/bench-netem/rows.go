package main

import (
	"fmt"
	"regexp"
	"slices"
	"time"
)

// row is a path and a direction, with what was measured on it in Mbit/s.
type row struct {
	roundTrip   time.Duration
	lossPercent float64
	toHost      bool
	host, guest []float64
}

func (r *row) String() string {
	direction := "host to guest"
	if r.toHost {
		direction = "guest to host"
	}
	return fmt.Sprintf("%d ms %.1f %% %s", r.roundTrip.Milliseconds(), r.lossPercent, direction)
}

func (r *row) add(guest bool, mbits float64) {
	if guest {
		r.guest = append(r.guest, mbits)
	} else {
		r.host = append(r.host, mbits)
	}
}

// choose returns the rows whose text only matches.
func choose(only string) ([]*row, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	var rows []*row
	for _, ms := range []int{20, 100, 200} {
		for _, loss := range []float64{0, 0.1, 1} {
			for _, toHost := range []bool{true, false} {
				r := &row{roundTrip: time.Duration(ms) * time.Millisecond, lossPercent: loss, toHost: toHost}
				if pattern.MatchString(r.String()) {
					rows = append(rows, r)
				}
			}
		}
	}
	return rows, nil
}

// next says whether the next run is the guest's: they alternate, and so does who is first. It continues what was interrupted.
func (r *row) next(runs int) (guest, more bool) {
	switch h, g := len(r.host), len(r.guest); {
	case h >= runs && g >= runs:
		return false, false
	case h == g:
		return h%2 == 1, true
	default:
		return g < h, true
	}
}

func (r *row) result() rowResult {
	direction := "host to guest"
	if r.toHost {
		direction = "guest to host"
	}
	out := rowResult{
		DelayMs: r.roundTrip.Milliseconds(), LossPercent: r.lossPercent, Direction: direction,
		Host: median(r.host), Guest: median(r.guest), HostRuns: r.host, GuestRuns: r.guest,
	}
	if out.Host > 0 {
		out.Ratio = out.Guest / out.Host
	}
	return out
}

// median returns 0 for no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
