// Command vhost-net-go gives a virtual machine a network over vhost-user: it
// is the backend of QEMU's virtio-net device, and turns the guest's
// connections into ordinary sockets of the host. It needs no privileges.
//
// Run it with --help for its options. docs/operations.md is about running it
// as a service.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	os.Exit(runMain(os.Args[1:], os.Stdout, os.Stderr, serve))
}

// runMain runs the daemon until a signal ends it and returns its exit status.
func runMain(args []string, stdout, stderr io.Writer, s serveFunc) int {
	// A reader of our output that goes away must not take us along.
	signal.Ignore(unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, args, stdout, stderr, s); err != nil {
		fmt.Fprintf(stderr, "vhost-net-go: %v\n", err)
		return 1
	}
	return 0
}

// endSignals are those that end the daemon cleanly. One that is ignored, as
// SIGHUP is under nohup(1), stays so.
func endSignals() []os.Signal {
	sigs := []os.Signal{unix.SIGTERM, unix.SIGINT}
	if !signal.Ignored(unix.SIGHUP) {
		sigs = append(sigs, unix.SIGHUP)
	}
	return sigs
}
