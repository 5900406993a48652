package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/pidfile"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
)

// capabilities is what --print-capabilities prints: the object that QEMU's
// vhost-user documentation ("Backend program conventions") asks for.
const capabilities = `{"type": "net"}`

// job is all that is known when the data path is to start.
type job struct {
	opts   options.Options
	plan   plan.Plan
	source vhostuser.Source // of frontends; closed by the caller
	log    *logging.Log
	// capture is nil if there is none.
	capture *capture.Capture
	// ready is called once everything is open, the forwarded ports
	// included: it shows the start-up screen and writes the pid file.
	ready func() error
}

// serveFunc runs the data path until ctx is done, or until the only frontend
// is gone. Being told to stop is no error.
type serveFunc func(context.Context, job) error

// run reads the command line, prepares everything and serves.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, serve serveFunc) error {
	opts, err := options.Parse(args)
	if err != nil {
		return err
	}
	switch {
	case opts.Help:
		_, err = io.WriteString(stdout, options.Usage())
		return err
	case opts.Version:
		_, err = fmt.Fprintf(stdout, "vhost-net-go %s\n", version())
		return err
	case opts.PrintCapabilities:
		_, err = fmt.Fprintln(stdout, capabilities)
		return err
	}
	log, err := logging.Open(stderr, opts.LogFile, opts.LogBytes, opts.Level)
	if err != nil {
		return fmt.Errorf("-l, --log-file %q: %w", opts.LogFile, err)
	}
	err = runDaemon(ctx, opts, log, serve)
	if err != nil && opts.LogFile != "" {
		log.Error("giving up", "error", err)
	}
	return errors.Join(err, log.Close())
}

// runDaemon does what has to be undone again before the process ends.
func runDaemon(ctx context.Context, opts options.Options, log *logging.Log, serve serveFunc) (err error) {
	p, err := network(opts, log)
	if err != nil {
		return err
	}
	end, err := openEndpoint(&opts, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end.Close()) }()

	var pid *pidfile.File
	defer func() {
		if pid != nil {
			err = errors.Join(err, pid.Remove())
		}
	}()
	ready := func() (err error) {
		log.Screen(screen(opts, p).Text())
		if opts.PidFile != "" {
			if pid, err = pidfile.Write(opts.PidFile); err != nil {
				return fmt.Errorf("-P, --pid %q: %w", opts.PidFile, err)
			}
		}
		return nil
	}
	dump, err := openCapture(opts, log)
	if err != nil {
		return err
	}
	err = serve(ctx, job{opts: opts, plan: p, source: end, log: log, capture: dump, ready: ready})
	if ctx.Err() != nil {
		log.Info("stopping", "cause", context.Cause(ctx))
		if errors.Is(err, ctx.Err()) {
			err = nil
		}
	}
	if cerr := dump.Close(); cerr != nil {
		log.Warn("the capture is not whole", "file", opts.PcapFile, "error", cerr)
	}
	return err
}

// network looks at the host and plans the guest's network.
func network(opts options.Options, log *logging.Log) (plan.Plan, error) {
	src := hostconf.DefaultSource()
	src.Interface = opts.Interface
	host, err := hostconf.Read(src)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("-i, --interface %w", err)
	}
	log.Debug("host", "ipv4", host.V4, "ipv6", host.V6, "resolvers", host.Resolvers, "search", host.Search)
	p, warnings, err := plan.Make(opts, host)
	if err != nil {
		return plan.Plan{}, err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	return p, nil
}
