package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limits of the idle row: wake-ups per second, and what CPU time rounds to 0 %.
const (
	maxWakes   = 5
	maxIdleCPU = 10 * time.Millisecond // per second
)

// report prints the results, ours first. It reports whether ours is over a limit.
func report(w io.Writer, results []result, o options) (missed bool) {
	fmt.Fprintf(w, "# system calls per operation; events come one by one, %v of rest between; MTU %d\n", o.gap, o.mtu)
	for i, op := range operations {
		n := results[0].total(i)
		fmt.Fprintf(w, "%s %.1f", op.name, n)
		for _, r := range results[1:] {
			fmt.Fprintf(w, "  %s %.1f", r.program, r.total(i))
		}
		fmt.Fprintf(w, "  (passt published %.0f; limit %.0f: %s)\n", op.passt, op.limit, verdict(n <= op.limit+0.05))
		missed = missed || n > op.limit+0.05
	}
	if o.flows > 0 {
		id := results[0].idle
		perSecond := time.Duration(float64(id.cpu) / o.idle.Seconds())
		ok := id.wakesPerSecond <= maxWakes && perSecond < maxIdleCPU
		fmt.Fprintf(w, "idle %.1f", id.wakesPerSecond)
		for _, r := range results[1:] {
			fmt.Fprintf(w, "  %s %.1f", r.program, r.idle.wakesPerSecond)
		}
		fmt.Fprintf(w, "  (wake-ups per second; limit %d: %s)\n", maxWakes, verdict(ok))
		for _, r := range results {
			fmt.Fprintf(w, "idle_cpu_percent %.2f  %s with %d flows, %d KiB resident\n",
				100*r.idle.cpu.Seconds()/o.idle.Seconds(), r.program, r.idle.flows, r.idle.rssBytes>>10)
		}
		missed = missed || !ok
	}
	if o.breakdown {
		for _, r := range results {
			fmt.Fprintf(w, "\n# %s, call by call, as strace sees it\n", r.program)
			for i, op := range operations {
				fmt.Fprintf(w, "%s: %s\n", op.name, breakdown(r.calls[i]))
			}
		}
	}
	return missed
}

// total is how many calls operation i takes.
func (r *result) total(i int) float64 {
	if r.totals != nil {
		return r.totals[i]
	}
	return r.calls[i].total()
}

func verdict(ok bool) string {
	if ok {
		return "kept"
	}
	return "MISSED"
}

// breakdown lists the calls, the most frequent first.
func breakdown(c counts) string {
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, n := range names {
		if c[n] >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s %.2f", n, c[n]))
		}
	}
	return strings.Join(parts, ", ")
}
