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
	again         bool
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
	flag.BoolVar(&o.again, "again", false, "begin anew; otherwise the runs in the JSON count, if they were made on the same path, and what is missing is added")
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
		Mbits: o.mbits, MTU: o.mtu, BufferBytes: o.buffers, Congestion: b.congestion, Seconds: o.seconds,
	}
	if !o.again {
		if err := r.resume(o.out); err != nil {
			return err
		}
	}
	for _, row := range chosen {
		row.resume(r.Rows)
		for guest, more := row.next(o.runs); more; guest, more = row.next(o.runs) {
			mbits, err := b.tryMeasure(ctx, row, guest)
			if err != nil {
				return fmt.Errorf("%s: %w", row, err)
			}
			logf("%s, guest %v: %.1f Mbit/s", row, guest, mbits)
			row.add(guest, mbits)
			// After each run, so that little is lost if this ends.
			r.put(row.result())
			r.Time = time.Now().UTC().Truncate(time.Second)
			if err := r.write(o.out); err != nil {
				return err
			}
		}
	}
	r.print(os.Stdout)
	return r.check(o.want)
}
