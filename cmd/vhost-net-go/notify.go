package main

import (
	"context"
	"net"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
)

// notify tells the service manager, if there is one (sd_notify(3)). That it
// cannot be told is no reason to do anything.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

func notifyReady(o options.Options) {
	notify(daemon.SdNotifyReady + "\nSTATUS=" + waitingFor(o))
}

func notifyStopping() { notify(daemon.SdNotifyStopping) }

func waitingFor(o options.Options) string {
	switch {
	case o.FD >= 0:
		return "starting with the inherited socket"
	case o.Client:
		return "connecting to " + o.SocketPath
	}
	return "waiting for a virtual machine on " + o.SocketPath
}

// notifyingSource tells the service manager of frontends that come and go.
type notifyingSource struct {
	vhostuser.Source
	opts options.Options
}

// Next is called when the last frontend is gone.
func (s *notifyingSource) Next(ctx context.Context) (*net.UnixConn, error) {
	notify("STATUS=" + waitingFor(s.opts))
	uc, err := s.Source.Next(ctx)
	if err == nil {
		notify("STATUS=serving a virtual machine")
	}
	return uc, err
}
