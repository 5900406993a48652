// Command bench-syscalls counts the system calls that a backend makes for one
// operation of a synthetic guest: for a segment to the host, for a message
// from the host with its acknowledgement, and for a whole short connection. It
// prints them for vhost-net-go and, if it is there, for passt. It also measures
// what 10 000 idle connections cost.
//
// The calls are counted with perf where the kernel allows that, else with strace,
// which also tells which calls they are. The backend runs in a network namespace
// that the command makes; it needs root, or a user who may make namespaces, and
// strace. Events are given
// to the backend one by one, each when it has finished with the one before: the
// dearest case, since nothing can be batched.
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

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

type options struct {
	ours      string
	passt     string
	root      string
	segments  int
	messages  int
	cycles    int
	gap       time.Duration
	flows     int
	idle      time.Duration
	mtu       int
	txCalls   bool
	breakdown bool
	keep      string
	files     int  // descriptors that a process may have
	perf      bool // counts the calls
}

func main() {
	sandbox.Main()
	var o options
	f := flag.CommandLine
	f.StringVar(&o.ours, "backend", "../bin/vhost-net-go", "vhost-net-go to measure")
	f.StringVar(&o.passt, "passt", "", "passt to measure beside it (default: $PASST, or what the guest tests unpacked; none: do not)")
	f.StringVar(&o.root, "passt-root", "", "root file system that passt lies in (default: $PASST_ROOT)")
	f.IntVar(&o.segments, "segments", 1000, "segments from the guest")
	f.IntVar(&o.messages, "messages", 1000, "messages from the host")
	f.IntVar(&o.cycles, "cycles", 300, "connect-request-response-close cycles")
	f.DurationVar(&o.gap, "gap", 0, "additional rest between two events")
	f.IntVar(&o.flows, "flows", 10000, "idle connections; 0: skip")
	f.DurationVar(&o.idle, "idle", 10*time.Second, "how long they are idle")
	f.IntVar(&o.mtu, "mtu", 1500, "MTU of the guest")
	f.BoolVar(&o.txCalls, "tx-calls", false, "let the guest ask for a call for each transmitted frame")
	f.BoolVar(&o.breakdown, "breakdown", true, "print which calls were made")
	f.StringVar(&o.keep, "keep", "", "folder to keep the traces in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	missed, err := run(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "bench-syscalls: %v\n", err)
		os.Exit(2)
	case missed:
		os.Exit(1)
	}
}

// run measures all programs and prints the table. missed says that ours is over
// a limit.
func run(ctx context.Context, o options) (missed bool, err error) {
	path, err := filepath.Abs(o.ours)
	if err != nil {
		return false, err
	}
	programs := []stage.Program{stage.Ours(path)}
	if p, ok := choosePasst(o); ok {
		programs = append(programs, p)
	}
	if o.files, err = stage.RaiseFiles(2*o.flows + 4096); err != nil {
		return false, err
	}
	o.perf = havePerf(ctx)
	s, err := stage.New(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var results []result
	for _, p := range programs {
		r, err := measure(ctx, s, p, o)
		if err != nil {
			return false, fmt.Errorf("%s: %w", p.Name, err)
		}
		results = append(results, r)
	}
	return report(os.Stdout, results, o), nil
}

func choosePasst(o options) (stage.Program, bool) {
	switch o.passt {
	case "none":
		return stage.Program{}, false
	case "":
		return stage.FindPasst()
	}
	if o.root == "" {
		o.root = os.Getenv("PASST_ROOT")
	}
	return stage.Passt(o.passt, o.root), true
}
