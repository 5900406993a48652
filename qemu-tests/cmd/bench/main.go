// Command bench compares the project's backend with passt: the same User Mode Linux guest, the same programs, alternating runs.
// It prints a table and writes JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

func main() {
	sandbox.Main() // before flags: this program may be run again without them
	runs := flag.Int("runs", 5, "`N` runs of each backend at each MTU; medians count")
	seconds := flag.Int("seconds", 2, "`N` seconds for each row of a run")
	out := flag.String("o", "bin/bench.json", "`FILE` for the JSON")
	flag.Parse()
	if *runs < 1 || *seconds < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx := context.Background()
	h, err := harness.Enter(ctx, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	if err == nil {
		err = compare(ctx, h, *runs, *seconds, *out)
		err = errors.Join(err, h.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// mtus are the guest's MTU: the normal one, and passt's own choice.
var mtus = []int{1500, 65520}

func compare(ctx context.Context, h *harness.Harness, runs, seconds int, out string) error {
	if h.Unable != nil {
		return h.Unable
	}
	var samples sampleSet
	backends := []lab.Backend{h.Backend, lab.Passt()}
	for run := range runs {
		for _, mtu := range mtus {
			for i := range backends {
				b := backends[(i+run)%len(backends)] // who is first alternates too
				fmt.Fprintf(os.Stderr, "run %d of %d, MTU %d, %s\n", run+1, runs, mtu, b.Name)
				values, err := measure(ctx, h, b, mtu, seconds)
				if err != nil {
					return fmt.Errorf("%s at MTU %d: %w", b.Name, mtu, err)
				}
				samples.add(b.Name, mtu, values)
			}
		}
	}
	report := samples.report(h.Backend.Name, []string{"passt"}, time.Now())
	report.print(os.Stdout)
	return report.write(out)
}
