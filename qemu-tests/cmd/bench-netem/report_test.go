package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		only string
		want int
	}{{"", 18}, {"^20 ms", 6}, {"guest to host", 9}, {"200 ms 0.0 % host", 1}, {"nothing", 0}} {
		if rows, err := choose(tt.only); err != nil || len(rows) != tt.want {
			t.Errorf("%q chooses %v, %v", tt.only, rows, err)
		}
	}
	if _, err := choose("("); err == nil {
		t.Error("a broken expression")
	}
}

func TestReceived(t *testing.T) {
	const out = `[  5]   0.00-10.00  sec   113 MBytes  94.9 Mbits/sec    0             sender
[  5]   0.00-10.04  sec   112 MBytes  93.9 Mbits/sec                  receiver`
	if got, err := received(out); err != nil || got != 93.9 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := received("iperf3: error - unable to connect"); err == nil {
		t.Error("no figure, no error")
	}
}

func TestReport(t *testing.T) {
	rows, err := choose("^20 ms 1.0 %")
	if err != nil {
		t.Fatal(err)
	}
	r := report{Mbits: 1000}
	for i, row := range rows {
		for _, v := range []float64{100, 300, 200} {
			row.add(false, v)
			row.add(true, v*(0.8+0.15*float64(i)))
		}
		r.Rows = append(r.Rows, row.result())
	}
	if got := r.Rows[1]; got.Host != 200 || got.Direction != "host to guest" || got.LossPercent != 1 || len(got.GuestRuns) != 3 {
		t.Errorf("%+v", got)
	}
	if err := r.check(0.9); err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "0.80 of") {
		t.Errorf("one row is below: %v", err)
	}
	if err := r.check(0.5); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "new", "netem.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(back, r) {
		t.Errorf("read back: %v %s", err, cmp.Diff(r, back))
	}
	var table bytes.Buffer
	r.print(&table)
	if lines := strings.Count(table.String(), "\n"); lines != 2+len(rows) {
		t.Errorf("the table has %d lines:\n%s", lines, table.String())
	}
}

func TestRunsAlternateAndResume(t *testing.T) {
	rows, err := choose("^100 ms 0.1 % host")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	r := report{Mbits: 1000, MTU: 9000, Seconds: 10}
	path := filepath.Join(t.TempDir(), "netem.json")
	if err := r.resume(path); err != nil {
		t.Errorf("without former runs: %v", err)
	}
	order := ""
	for run := range 6 {
		// Each run is made by a program of its own.
		again := report{Mbits: 1000, MTU: 9000, Seconds: 10}
		if err := again.resume(path); err != nil {
			t.Fatal(err)
		}
		row := &row{roundTrip: rows[0].roundTrip, lossPercent: rows[0].lossPercent}
		row.resume(again.Rows)
		guest, more := row.next(3)
		if !more {
			t.Fatalf("the end after %d runs", run)
		}
		order += map[bool]string{false: "h", true: "g"}[guest]
		row.add(guest, float64(run))
		again.put(row.result())
		if err := again.write(path); err != nil {
			t.Fatal(err)
		}
		r = again
	}
	if order != "hgghhg" || len(r.Rows) != 1 || len(r.Rows[0].HostRuns) != 3 {
		t.Errorf("order %q, %+v", order, r.Rows)
	}
	rows[0].resume(r.Rows)
	if _, more := rows[0].next(3); more {
		t.Error("one more run")
	}
	other := report{Mbits: 100}
	if err := other.resume(path); err != nil || len(other.Rows) != 0 {
		t.Errorf("runs of another path count: %+v, %v", other.Rows, err)
	}
}
