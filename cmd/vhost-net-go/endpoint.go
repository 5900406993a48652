package main

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/inherit"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sockpath"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
)

// openEndpoint opens the side of the frontend in the role that the options
// say. A default path is written back to them.
func openEndpoint(opts *options.Options, log *logging.Log, sockets inherit.Sockets) (vhostuser.Source, error) {
	listen := []vhostuser.ListenOption{vhostuser.WithMode(opts.SocketMode), vhostuser.WithLogger(log.Logger)}
	switch {
	case sockets.FD >= 0:
		src, err := vhostuser.Inherit(sockets.FD, listen...)
		if err != nil {
			return nil, fmt.Errorf("socket of the service manager's: %w", err)
		}
		return src, nil
	case opts.FD >= 0:
		src, err := vhostuser.Inherit(opts.FD, listen...)
		if err != nil {
			return nil, fmt.Errorf("-F, --fd \"%d\": %w", opts.FD, err)
		}
		return src, nil
	case opts.Client:
		path, err := lasting(*opts)
		if err != nil {
			return nil, err
		}
		src, err := vhostuser.NewDialer(path, time.Duration(opts.ReconnectMs)*time.Millisecond, log.Logger)
		if err != nil {
			return nil, fmt.Errorf("-s, --socket %q: %w", opts.SocketPath, err)
		}
		return src, nil
	case opts.SocketPath == "":
		first := sockpath.First
		if opts.Passt {
			first = sockpath.FirstPasst
		}
		path, err := first(sockpath.Dir())
		if err != nil {
			return nil, err
		}
		opts.SocketPath = path
	}
	path, err := lasting(*opts)
	if err != nil {
		return nil, err
	}
	src, err := vhostuser.Listen(path, listen...)
	if err != nil {
		return nil, fmt.Errorf("-s, --socket %q: %w", opts.SocketPath, err)
	}
	return src, nil
}

// lasting is the socket's path as it can be used as long as the daemon runs: the
// absolute one, since a daemon that detaches leaves its caller's folder. One that
// stays there may use the shorter one where a socket cannot have the other.
func lasting(opts options.Options) (string, error) {
	abs, err := filepath.Abs(opts.SocketPath)
	switch {
	case err != nil:
		return "", fmt.Errorf("-s, --socket %q: %w", opts.SocketPath, err)
	case len(abs) <= options.MaxSocketPath:
		return abs, nil
	case opts.Background:
		return "", fmt.Errorf("-s, --socket %q: is %d bytes long with the current folder; a socket path has at most %d, and the daemon leaves that folder",
			opts.SocketPath, len(abs), options.MaxSocketPath)
	}
	return opts.SocketPath, nil
}

// version is that of the main module: a tag, or a commit when built between
// tags.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
