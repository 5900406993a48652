package qemutests

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// result is one line of the summary.
type result struct {
	name, verdict string
	took          time.Duration
	notes         []string
}

var results struct {
	sync.Mutex
	list []*result
}

// record puts the test into the summary when it ends.
func record(t *testing.T) {
	t.Helper()
	r := &result{name: t.Name(), verdict: "ok"}
	start := time.Now()
	t.Cleanup(func() {
		r.took = time.Since(start)
		if t.Failed() {
			r.verdict = "FAIL"
		}
	})
	results.Lock()
	defer results.Unlock()
	results.list = append(results.list, r)
}

func noteSkip(t *testing.T, reason error) {
	results.Lock()
	defer results.Unlock()
	results.list = append(results.list, &result{name: t.Name(), verdict: "SKIP", notes: []string{reason.Error()}})
}

// note adds a line to what the summary says about the test, and to its log.
func note(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	t.Log(text)
	results.Lock()
	defer results.Unlock()
	for _, r := range results.list {
		if r.name == t.Name() {
			r.notes = append(r.notes, text)
		}
	}
}

func printSummary() {
	results.Lock()
	defer results.Unlock()
	count := map[string]int{}
	fmt.Println("\n=== guests: summary")
	for _, r := range results.list {
		count[r.verdict]++
		fmt.Printf("%-4s %6.1f s  %s\n", r.verdict, r.took.Seconds(), r.name)
		for _, n := range r.notes {
			fmt.Println("                 " + strings.ReplaceAll(n, "\n", "\n                 "))
		}
	}
	fmt.Printf("=== guests: %d ok, %d failed, %d skipped\n", count["ok"], count["FAIL"], count["SKIP"])
}
