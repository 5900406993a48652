package main

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sockpath"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
)

// openEndpoint opens the side of the frontend in the role that the options
// say. A default path is written back to them.
func openEndpoint(opts *options.Options, log *logging.Log) (vhostuser.Source, error) {
	listen := []vhostuser.ListenOption{vhostuser.WithMode(opts.SocketMode), vhostuser.WithLogger(log.Logger)}
	switch {
	case opts.FD >= 0:
		src, err := vhostuser.Inherit(opts.FD, listen...)
		if err != nil {
			return nil, fmt.Errorf("-F, --fd \"%d\": %w", opts.FD, err)
		}
		return src, nil
	case opts.Client:
		src, err := vhostuser.NewDialer(opts.SocketPath, time.Duration(opts.ReconnectMs)*time.Millisecond, log.Logger)
		if err != nil {
			return nil, fmt.Errorf("-s, --socket %q: %w", opts.SocketPath, err)
		}
		return src, nil
	case opts.SocketPath == "":
		path, err := sockpath.First(sockpath.Dir())
		if err != nil {
			return nil, err
		}
		opts.SocketPath = path
	}
	src, err := vhostuser.Listen(opts.SocketPath, listen...)
	if err != nil {
		return nil, fmt.Errorf("-s, --socket %q: %w", opts.SocketPath, err)
	}
	return src, nil
}

// version is that of the main module: a tag, or a commit when built between
// tags.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
