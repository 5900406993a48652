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
	}{{"", 10}, {"^20 ms", 6}, {"guest to host", 5}, {"200 ms 0.0 % host", 1}, {"nothing", 0}} {
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
