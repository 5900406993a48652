// Command bench-bigtcp compares sizes of the frames to the guest: ordinary ones against those above 64 KiB (BIG TCP). The same
// User Mode Linux guest, alternating runs; netperf with 80 000 bytes each way, which is more than an ordinary frame holds, and a
// stream to the guest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

func main() {
	sandbox.Main() // before flags: this program may be run again without them
	runs := flag.Int("runs", 10, "`N` runs of each size")
	seconds := flag.Int("seconds", 2, "`N` seconds for each row of a run")
	sizes := flag.String("sizes", "off,262144", "`LIST` of sizes in bytes, or off; ratios are to the first")
	mtu := flag.String("mtu", "1500", "`BYTES` of the guest's MTU")
	out := flag.String("o", "bin/bench-bigtcp.json", "`FILE` for the values of all runs; those that it has already are added to")
	flag.Parse()
	if *runs < 0 || *seconds < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	b := bench{seconds: *seconds, mtu: *mtu, sizes: strings.Split(*sizes, ",")}
	ctx := context.Background()
	h, err := harness.Enter(ctx, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	if err == nil {
		err = b.compare(ctx, h, *runs, *out)
		err = errors.Join(err, h.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-bigtcp:", err)
		os.Exit(1)
	}
}

// bench is what a comparison is made of.
type bench struct {
	seconds int
	mtu     string
	sizes   []string
}

func (b bench) compare(ctx context.Context, h *harness.Harness, runs int, out string) error {
	if h.Unable != nil {
		return h.Unable
	}
	all, err := load(out)
	if err != nil {
		return err
	}
	for run := range runs {
		for i := range b.sizes {
			size := b.sizes[(i+run)%len(b.sizes)] // who is first alternates too
			v, err := b.measure(ctx, h, size)
			if err != nil {
				return fmt.Errorf("size %s: %w", size, err)
			}
			fmt.Fprintf(os.Stderr, "run %d of %d, %s: %v\n", run+1, runs, size, v)
			all.add(b.mtu, size, v)
			if err := all.save(out); err != nil {
				return err
			}
		}
	}
	all.print(os.Stdout, b.mtu, b.sizes)
	return nil
}
