// Command storm connects and closes over and over from a range of 200 ports, from the guest to its host and back. It fails if
// a connection is reset or hangs, or if the backend keeps a descriptor. It needs the right to make network namespaces.
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

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/storm"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

func main() {
	stage.Main()
	backend := flag.String("backend", "bin/vhost-net-go", "`PATH` of the vhost-net-go to test")
	cycles := flag.Int("cycles", 200_000, "`N` connections in each direction")
	parallel := flag.Int("parallel", 64, "`N` connections at a time")
	flag.Parse()
	if *cycles < 1 || *parallel < 1 || *parallel > storm.Sources || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *backend, *cycles, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, backend string, cycles, parallel int) (err error) {
	path, err := filepath.Abs(backend)
	if err != nil {
		return err
	}
	s, err := stage.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var errs []error
	for _, inbound := range []bool{false, true} {
		r, err := storm.Run(ctx, s, stage.Ours(path), storm.Config{Cycles: cycles, Parallel: parallel, Inbound: inbound})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Println(r)
	}
	return errors.Join(errs...)
}
