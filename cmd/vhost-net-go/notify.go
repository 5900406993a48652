package main

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
)

// notifyWait is how long a service manager may take for a message.
const notifyWait = time.Second

// manager is the service manager (sd_notify(3)), nil if there is none. That it
// cannot be told something is no reason to do anything.
type manager struct{ conn *net.UnixConn }

// connectManager connects to NOTIFY_SOCKET: a path, or a name without a file,
// which begins with @. The sandbox forbids both later, but not to use a
// connection that there is.
func connectManager() *manager {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return nil
	}
	return &manager{conn: conn}
}

func (m *manager) tell(state string) {
	if m == nil {
		return
	}
	if err := m.conn.SetWriteDeadline(time.Now().Add(notifyWait)); err == nil {
		_, _ = m.conn.Write([]byte(state))
	}
}

func (m *manager) ready(o options.Options) {
	m.tell(daemon.SdNotifyReady + "\nSTATUS=" + waitingFor(o))
}

func (m *manager) stopping() { m.tell(daemon.SdNotifyStopping) }

// Close ends the connection.
func (m *manager) Close() {
	if m != nil {
		_ = m.conn.Close()
	}
}

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
	opts    options.Options
	manager *manager
}

// Next is called when the last frontend is gone.
func (s *notifyingSource) Next(ctx context.Context) (*net.UnixConn, error) {
	s.manager.tell("STATUS=" + waitingFor(s.opts))
	uc, err := s.Source.Next(ctx)
	if err == nil {
		s.manager.tell("STATUS=serving a virtual machine")
	}
	return uc, err
}
