package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var nan = math.NaN()

// equal takes a failure for what it is, and nothing for an empty map.
var equal = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b sample) bool {
	return a == b || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
})}

// example is a document with a row that is whole, one with failures and one without our value.
func example() *document {
	d := &document{}
	stream, memory := tcpTest("TCP guest to host, 8 streams", 4, "-P 8"), idleMemory()
	for _, v := range []float64{10, 30, 20} {
		d.add(stream, qemuGuest, 1500, ours, []float64{v, 1, 40})
		d.add(stream, qemuGuest, 1500, passt, []float64{v / 2, 2, 80})
		d.add(stream, qemuGuest, 1500, slirp, []float64{nan, nan, nan})
		d.align(stream, qemuGuest, 1500)
	}
	d.skip(stream, qemuGuest, 1500, gvisor, "is not there")
	d.add(memory, umlGuest, 65520, ours, []float64{nan})
	d.add(memory, umlGuest, 65520, passt, []float64{14})
	d.update(time.Unix(1e9, 0))
	return d
}

func TestDocument(t *testing.T) {
	d := example()
	if d.Rows[0].Guest != umlGuest || d.Rows[0].MTU != 65520 {
		t.Errorf("the order of rows: %+v", d.Rows[0])
	}
	l := d.Rows[1]
	want := &line{
		Name: "TCP guest to host, 8 streams", Guest: qemuGuest, MTU: 1500, Ours: 20, Peers: map[string]float64{passt: 10},
		Ratio: map[string]float64{passt: 2}, Range: map[string][2]float64{passt: {2, 2}}, Unit: "Mbit/s", Better: "higher", Runs: 3,
		Failed: map[string]int{slirp: 3}, Skipped: map[string]string{gvisor: "is not there"},
	}
	if diff := cmp.Diff(want, l, cmpopts.IgnoreFields(line{}, "Samples")); diff != "" {
		t.Error(diff)
	}
	if cpu := d.Rows[2]; cpu.Better != "lower" || cpu.Ratio[passt] != 0.5 || cpu.Samples[slirp] != nil || cpu.Skipped[slirp] == "" {
		t.Errorf("CPU time: %+v", cpu)
	}
}

func TestDocumentIsReadAsItWasWritten(t *testing.T) {
	d := example()
	path := filepath.Join(t.TempDir(), "new", "bench.json")
	if err := d.write(path); err != nil {
		t.Fatal(err)
	}
	back, err := readDocument(path)
	if err != nil || !cmp.Equal(back, d, equal) {
		t.Errorf("read back: %v %s", err, cmp.Diff(d, back, equal))
	}
	if _, err := readDocument(path + "-gone"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readDocument(path); err == nil {
		t.Error("half a file is read")
	}
}

func TestMoreRunsAreAdded(t *testing.T) {
	d, test := &document{}, tcpTest("x", 4, "")
	d.add(test, umlGuest, 1500, ours, []float64{10, 1})
	d.align(test, umlGuest, 1500)
	// A second piece has a peer too; its value stands beside the one of the same run.
	d.add(test, umlGuest, 1500, ours, []float64{20, 1})
	d.add(test, umlGuest, 1500, passt, []float64{10, 1})
	d.align(test, umlGuest, 1500)
	d.update(time.Now())
	l := d.Rows[0]
	if l.Runs != 2 || l.Range[passt] != [2]float64{2, 2} || l.Failed[passt] != 1 {
		t.Errorf("%+v", l)
	}
	d.forget(test, umlGuest, 1500)
	d.add(test, umlGuest, 1500, ours, []float64{7, 1})
	d.update(time.Now())
	if len(d.Rows) != 2 || l.Runs != 1 || l.Ours != 7 || l.Peers[passt] != 0 {
		t.Errorf("after a new start: %+v", l)
	}
}

func TestCells(t *testing.T) {
	l := example().Rows[1]
	for peer, want := range map[string]string{
		passt: "10.0, **2.00** (2.00…2.00)", slirp: "FAILED", gvisor: "SKIP: is not there", "another": "–",
	} {
		if got := l.cell(peer); got != want {
			t.Errorf("%s: %q", peer, got)
		}
	}
	if got := example().Rows[0].own(); got != "FAILED" {
		t.Errorf("ours: %q", got)
	}
	l.Samples[ours][0], l.Samples[passt][1] = sample(nan), sample(nan)
	l.update()
	if l.own() != "25.0 (1 of 3 FAILED)" || l.cell(passt) != "7.50, **3.33** (2.00…2.00) (1 of 3 FAILED)" {
		t.Errorf("with failures: %q, %q", l.own(), l.cell(passt))
	}
}

func TestDocsAreMadeOfTheFileAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "performance.md")
	text := "# Performance\n\n" + beginMarker + "\nformer table\n" + endMarker + "\n\nThe rest.\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var first, firstPlot []byte
	for i := range 3 {
		d := example()
		if err := d.writeDocs(path); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(path)
		plot, _ := os.ReadFile(filepath.Join(dir, "performance.svg"))
		if i == 0 {
			first, firstPlot = got, plot
		}
		if !cmp.Equal(got, first) || !cmp.Equal(plot, firstPlot) {
			t.Error("the same values give another table or plot")
		}
	}
	s := string(first)
	if strings.Contains(s, "former") || !strings.HasSuffix(s, "\n"+endMarker+"\n\nThe rest.\n") || !strings.Contains(s, "### Guest qemu-tcg, MTU 1500") ||
		!strings.Contains(s, "![ratios](performance.svg)") || !strings.Contains(s, "| TCP guest to host, 8 streams | Mbit/s | 3 | 20.0 |") {
		t.Error(s)
	}
	if err := os.WriteFile(path, []byte("no markers"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := example().writeDocs(path); err == nil {
		t.Error("no error without markers")
	}
}

func TestPlot(t *testing.T) {
	s := example().svg()
	// Three lines have a ratio to passt, and all of them are twice as good.
	if n := strings.Count(s, "<title>passt: 2.00</title>"); n != 3 {
		t.Errorf("%d dots:\n%s", n, s)
	}
	if plotX(1000) != plotLeft+plotWide || plotX(0.001) != plotLeft || plotX(1) != plotLeft+plotWide/2 {
		t.Error("the axis does not end where it should")
	}
}
