// Command bench-netem measures TCP over long and lossy paths: the same iperf3 run on the host itself and in a User Mode
// Linux guest behind the backend, alternating. The path is a program (package longpath), as many kernels lack netem. It prints
// a table and writes JSON, and fails if a guest has less than the wanted share of what its host has.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

type options struct {
	runs, seconds int
	mbits         int64
	mtu           int
	buffers       int
	congestion    string
	want          float64
	only          string
	out           string
	diagnose      string
}

func main() {
	sandbox.Main() // before flags: this program may be run again without them
	var o options
	flag.IntVar(&o.runs, "runs", 3, "`N` runs of each row; medians count")
	flag.IntVar(&o.seconds, "seconds", 10, "`N` seconds for each run")
	flag.Int64Var(&o.mbits, "mbits", 1000, "`N` Mbit/s that the path carries")
	flag.IntVar(&o.mtu, "mtu", 9000, "`BYTES` of the path's MTU, and so of the guest's; with small ones the processor may be the limit")
	flag.IntVar(&o.buffers, "buffers", 64<<20, "`BYTES` that sockets of the hosts may grow to (tcp_rmem, tcp_wmem)")
	flag.StringVar(&o.congestion, "congestion", "", "`NAME` of the congestion control of the hosts (default: the machine's)")
	flag.Float64Var(&o.want, "want", 0.9, "`SHARE` of the host's throughput that the guest must have")
	flag.StringVar(&o.only, "only", "", "`REGEXP` of the rows to measure, as they are printed: delay, loss, direction")
	flag.StringVar(&o.out, "o", "bin/netem.json", "`FILE` for the JSON")
	flag.StringVar(&o.diagnose, "diagnose", "", "`FILE` for the state of sockets and backend late in each run")
	flag.Parse()
	if o.runs < 1 || o.seconds < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	logf := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	ctx := context.Background()
	h, err := harness.Enter(ctx, logf)
	if err == nil {
		err = compare(ctx, h, o, logf)
		err = errors.Join(err, h.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-netem:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, h *harness.Harness, o options, logf func(string, ...any)) error {
	if h.Unable != nil {
		return h.Unable
	}
	b, err := newBench(ctx, h, o)
	if err != nil {
		return err
	}
	defer b.close()
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	r := report{
		Time: time.Now().UTC().Truncate(time.Second), Mbits: o.mbits, MTU: o.mtu, BufferBytes: o.buffers,
		Congestion: b.congestion, Seconds: o.seconds,
	}
	for _, row := range chosen {
		for run := range o.runs {
			for i := range 2 {
				guest := (i+run)%2 == 1 // who is first alternates
				mbits, err := b.tryMeasure(ctx, row, guest)
				if err != nil {
					return fmt.Errorf("%s: %w", row, err)
				}
				logf("run %d of %d, %s, guest %v: %.1f Mbit/s", run+1, o.runs, row, guest, mbits)
				row.add(guest, mbits)
			}
		}
		r.Rows = append(r.Rows, row.result())
	}
	r.print(os.Stdout)
	return errors.Join(r.write(o.out), r.check(o.want))
}
