package main

import (
	"fmt"
	"path/filepath"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/banner"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
	"github.com/vhost-net-go/vhost-net-go/netstack"
)

// screen is the start-up screen for these options. Other programs run in other
// folders, so the socket's path is shown in full.
func screen(opts options.Options, p plan.Plan, forwards []netstack.Forward) banner.Screen {
	s := banner.Screen{Version: version(), Role: banner.Listens, SocketPath: opts.SocketPath, FD: opts.FD, Plan: p}
	switch {
	case opts.FD >= 0:
		s.Role = banner.Inherits
	case opts.Client:
		s.Role = banner.Connects
	}
	if abs, err := filepath.Abs(opts.SocketPath); err == nil && s.Role != banner.Inherits {
		s.SocketPath = abs
	}
	for _, f := range forwards {
		s.Ports = append(s.Ports, portText(f))
	}
	return s
}

// portText is a forwarding rule as it was met. Of those that take what they can
// get it says how much that is.
func portText(f netstack.Forward) string {
	if f.BestEffort {
		return fmt.Sprintf("%v (%d ports)", f.Rule, f.Open)
	}
	return f.String()
}
