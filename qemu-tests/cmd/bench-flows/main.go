// Command bench-flows opens a very large number of TCP connections through a
// backend, all of them from a synthetic guest and open at the same time, lets
// each exchange 1 KiB with a server, and closes them. It prints how long that
// took and what memory the backend needed and gave back; any connection that
// fails makes it fail.
//
// A machine may not allow a process so many descriptors. Then the connections
// come in several rounds, each as large as may be, and the output says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

type options struct {
	ours     string
	passt    bool
	flows    int
	pending  int
	exchange int
	limit    time.Duration
}

func main() {
	stage.Main()
	var o options
	flag.StringVar(&o.ours, "backend", "../bin/vhost-net-go", "vhost-net-go to measure")
	flag.BoolVar(&o.passt, "passt", false, "measure passt too (from $PASST, or what the guest tests unpacked)")
	flag.IntVar(&o.flows, "flows", 100_000, "connections")
	flag.IntVar(&o.pending, "pending", 256, "handshakes at a time")
	flag.IntVar(&o.exchange, "bytes", 1024, "bytes that each connection carries, in each direction")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "time for each step of a program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "bench-flows: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	path, err := filepath.Abs(o.ours)
	if err != nil {
		return err
	}
	programs := []stage.Program{stage.Ours(path)}
	if p, ok := stage.FindPasst(); ok && o.passt {
		programs = append(programs, p)
	}
	files, err := stage.RaiseFiles(2*o.flows + reservedFiles)
	if err != nil {
		return err
	}
	s, err := stage.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var errs []error
	for _, p := range programs {
		if err := measure(ctx, s, p, files, o); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}
