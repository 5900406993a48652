// Command bench-synth measures a backend's own limit: a synthetic guest that
// costs little itself loads it over its virtqueues, and a peer that costs little
// is on the other side. Beside the rate, the backend's CPU time counts: it is
// measured for each row, so that the result does not depend on how many cores
// guest and peer leave to the backend.
//
// vhost-net-go and passt, if it is there, run in turn; the medians of all runs,
// their ratio and its range are printed, and written as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

type options struct {
	ours     string
	second   string
	flush    string
	mtus     string
	runs     int
	duration time.Duration
	spin     time.Duration
	rows     string
	json     string
	txCalls  bool
	verbose  bool
}

func main() {
	stage.Main()
	var o options
	flag.StringVar(&o.ours, "backend", "../bin/vhost-net-go", "vhost-net-go to measure")
	flag.StringVar(&o.second, "against", "", "another vhost-net-go to measure in place of passt")
	flag.StringVar(&o.flush, "flush", "", "measure ours with these sizes of batches and flushes, in frames, separated by commas, and print Markdown")
	flag.StringVar(&o.mtus, "mtu", "1500,65520", "MTUs of the guest")
	flag.IntVar(&o.runs, "runs", 5, "runs of each program")
	flag.DurationVar(&o.duration, "duration", time.Second, "length of a measurement")
	flag.DurationVar(&o.spin, "spin", 0, "how long the guest looks at its rings before it sleeps")
	flag.StringVar(&o.rows, "rows", "", "regular expression of the rows to measure (default: all)")
	flag.StringVar(&o.json, "o", "", "file for the JSON")
	flag.BoolVar(&o.txCalls, "tx-calls", false, "let the guest ask for a call for transmitted frames")
	flag.BoolVar(&o.verbose, "v", false, "print every value")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "bench-synth: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	programs, err := choosePrograms(o)
	if err != nil {
		return err
	}
	chosen, err := chooseRows(o.rows)
	if err != nil {
		return err
	}
	var mtus []int
	for _, text := range strings.Split(o.mtus, ",") {
		mtu, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("MTU %q is no number", text)
		}
		mtus = append(mtus, mtu)
	}
	s, err := stage.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	peer, err := s.StartPeer(ctx, firstPeerPort)
	if err != nil {
		return err
	}
	defer peer.Stop()
	samples := newSamples(programs, mtus, chosen)
	for i := range o.runs {
		for _, mtu := range mtus {
			if err := samples.round(ctx, s, peer, mtu, i, o); err != nil {
				return err
			}
		}
	}
	if o.flush != "" {
		samples.printFlush(os.Stdout)
		return nil
	}
	r := samples.report(time.Now())
	r.print(os.Stdout)
	if o.json != "" {
		return r.write(o.json)
	}
	return nil
}

func choosePrograms(o options) ([]stage.Program, error) {
	path, err := filepath.Abs(o.ours)
	if err != nil {
		return nil, err
	}
	if o.flush != "" {
		return flushPrograms(path, o.flush)
	}
	programs := []stage.Program{stage.Ours(path)}
	if o.second != "" {
		if path, err = filepath.Abs(o.second); err != nil {
			return nil, err
		}
		second := stage.Ours(path)
		second.Name = filepath.Base(path)
		return append(programs, second), nil
	}
	if p, ok := stage.FindPasst(); ok {
		programs = append(programs, p)
	}
	return programs, nil
}

func chooseRows(pattern string) ([]row, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	var out []row
	for _, r := range rows {
		if re.MatchString(r.name) {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no row matches %q", pattern)
	}
	return out, nil
}
