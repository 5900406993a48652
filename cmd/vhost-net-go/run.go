package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/background"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/inherit"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
	"github.com/vhost-net-go/vhost-net-go/netstack"
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
	host   hostconf.State   // what the plan was made for
	source vhostuser.Source // of frontends; closed by the caller
	log    *logging.Log
	// capture is nil if there is none.
	capture *capture.Capture
	// sockets of forwarded ports were inherited.
	sockets []netstack.InheritedSocket
	// ready is called once everything is open, with the forwarded ports as
	// they were opened.
	ready func([]netstack.Forward) error
	// readResolvConf returns the content of the host's resolver file after that.
	readResolvConf func() ([]byte, error)
}

// serveFunc runs the data path until ctx is done, or until the only frontend
// is gone. Being told to stop is no error.
type serveFunc func(context.Context, job) error

// run reads the command line, prepares everything and serves. It returns the
// exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, serve serveFunc) (int, error) {
	parse := options.Parse
	if calledPasst(args[0]) {
		parse = options.ParsePasst
	}
	opts, err := parse(args[1:])
	if err != nil {
		return 1, err
	}
	switch {
	case opts.Help:
		_, err = io.WriteString(stdout, options.Usage())
		return 0, err
	case opts.Version:
		_, err = fmt.Fprintf(stdout, "vhost-net-go %s\n", version())
		return 0, err
	case opts.PrintCapabilities:
		_, err = fmt.Fprintln(stdout, capabilities)
		return 0, err
	}
	var child *background.Child
	if opts.Background {
		if child = background.Started(); child == nil {
			return background.Run(ctx, opts.FD)
		}
	}
	log, err := logging.Open(stderr, opts.LogFile, opts.LogBytes, opts.Level)
	if err != nil {
		return 1, fmt.Errorf("-l, --log-file %q: %w", opts.LogFile, err)
	}
	err = runDaemon(ctx, opts, log, child, serve)
	if err != nil && (opts.LogFile != "" || child != nil) {
		log.Error("giving up", "error", err)
	}
	return 0, errors.Join(err, log.Close())
}

// runDaemon does what has to be undone again before the process ends.
func runDaemon(ctx context.Context, opts options.Options, log *logging.Log, child *background.Child, serve serveFunc) (err error) {
	for _, note := range opts.Notes {
		log.Info(note)
	}
	sockets, err := inherit.Take()
	if err != nil {
		return err
	}
	if err := useInherited(&opts, &sockets); err != nil {
		sockets.Close()
		return err
	}
	p, host, err := network(opts, log)
	if err != nil {
		return err
	}
	end, err := openEndpoint(&opts, log, sockets)
	if err != nil {
		return err
	}
	mgr := connectManager()
	defer mgr.Close()
	start := &startUp{opts: opts, plan: p, log: log, child: child, manager: mgr}
	defer func() { err = errors.Join(err, start.undo(end.Close())) }()
	dump, err := openCapture(opts, log)
	if err != nil {
		return err
	}
	start.capture = &dump
	err = serve(ctx, job{
		opts: opts, plan: p, host: host, source: &notifyingSource{end, opts, mgr}, log: log,
		capture: dump.Capture, sockets: sockets.Forwards, readResolvConf: start.readResolvConf,
		ready: func(forwards []netstack.Forward) error { return start.ready(ctx, forwards) },
	})
	if ctx.Err() != nil {
		log.Info("stopping", "cause", context.Cause(ctx))
		if start.done && errors.Is(err, ctx.Err()) {
			err = nil
		}
	}
	mgr.stopping()
	dump.end(log)
	return explainForward(err)
}
