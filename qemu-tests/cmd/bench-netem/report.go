package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/jsonfile"
)

// report is the JSON document. Throughput is in Mbit/s.
type report struct {
	Time        time.Time   `json:"time"`
	Mbits       int64       `json:"path_mbits"`
	MTU         int         `json:"mtu"`
	BufferBytes int         `json:"socket_buffer_bytes"`
	Congestion  string      `json:"congestion_control"`
	Seconds     int         `json:"seconds"`
	Rows        []rowResult `json:"rows"`
}

// rowResult compares medians. DelayMs is of the round trip.
type rowResult struct {
	DelayMs     int64     `json:"delay_ms"`
	LossPercent float64   `json:"loss_percent"`
	Direction   string    `json:"direction"`
	Host        float64   `json:"host"`
	Guest       float64   `json:"guest"`
	Ratio       float64   `json:"ratio"`
	HostRuns    []float64 `json:"host_runs"`
	GuestRuns   []float64 `json:"guest_runs"`
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "# %d Mbit/s, MTU %d, %s, socket buffers up to %d MiB, medians of runs of %d s\n",
		r.Mbits, r.MTU, r.Congestion, r.BufferBytes>>20, r.Seconds)
	fmt.Fprintf(w, "%6s %6s  %-14s %12s %12s %6s\n", "delay", "loss", "direction", "host Mbit/s", "guest Mbit/s", "ratio")
	for _, l := range r.Rows {
		fmt.Fprintf(w, "%3d ms %4.1f %%  %-14s %12.1f %12.1f %6.2f\n", l.DelayMs, l.LossPercent, l.Direction, l.Host, l.Guest, l.Ratio)
	}
}

// check names each row whose guest has less than the wanted share.
func (r *report) check(want float64) error {
	var errs []error
	for _, l := range r.Rows {
		if l.Ratio < want {
			errs = append(errs, fmt.Errorf("%d ms, %.1f %%, %s: %.2f of the host's throughput, not %.2f",
				l.DelayMs, l.LossPercent, l.Direction, l.Ratio, want))
		}
	}
	return errors.Join(errs...)
}

// resume takes the rows of the JSON at path, if there is one of the same path.
func (r *report) resume(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read former runs: %w", err)
	}
	var old report
	if err := json.Unmarshal(text, &old); err != nil {
		return fmt.Errorf("read former runs: %s: %w", path, err)
	}
	if old.Mbits == r.Mbits && old.MTU == r.MTU && old.BufferBytes == r.BufferBytes && old.Congestion == r.Congestion && old.Seconds == r.Seconds {
		r.Rows = old.Rows
	}
	return nil
}

// is says whether the result is the row's.
func (l *rowResult) is(other rowResult) bool {
	return l.DelayMs == other.DelayMs && l.LossPercent == other.LossPercent && l.Direction == other.Direction
}

// put puts a row in the place of its former result, or behind the others.
func (r *report) put(result rowResult) {
	for i := range r.Rows {
		if r.Rows[i].is(result) {
			r.Rows[i] = result
			return
		}
	}
	r.Rows = append(r.Rows, result)
}

// resume takes the row's runs out of former results.
func (r *row) resume(old []rowResult) {
	for _, l := range old {
		if l.is(r.result()) {
			r.host, r.guest = l.HostRuns, l.GuestRuns
			return
		}
	}
}

func (r *report) write(path string) error { return jsonfile.Write(path, r) }
