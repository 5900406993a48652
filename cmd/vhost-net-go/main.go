// Command vhost-net-go gives a virtual machine a network over vhost-user: it
// is the backend of QEMU's virtio-net device, and turns the guest's
// connections into ordinary sockets of the host. It needs no privileges.
//
// Started under the name passt, it takes passt's place where that is told to
// speak vhost-user.
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
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/resolvfile"
)

func main() {
	os.Exit(runMain(os.Args, os.Stdout, os.Stderr, serve))
}

// runMain runs the daemon until a signal ends it and returns its exit status.
func runMain(args []string, stdout, stderr io.Writer, s serveFunc) int {
	if reader := resolvfile.Started(); reader != nil {
		reader.Serve()
		return 0
	}
	// A reader of our output that goes away must not take us along, nor a file
	// that reaches the user's limit.
	signal.Ignore(unix.SIGPIPE, unix.SIGXFSZ)
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	status, err := run(ctx, args, stdout, stderr, s)
	if err != nil {
		fmt.Fprintf(stderr, "vhost-net-go: %v\n", err)
		return max(status, 1)
	}
	return status
}

// calledPasst reports whether a program of this name is to behave as passt. Its
// second name is that of its build for newer processors, which callers may run
// directly.
func calledPasst(arg0 string) bool {
	name, _ := strings.CutSuffix(filepath.Base(arg0), ".avx2")
	return name == "passt"
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
