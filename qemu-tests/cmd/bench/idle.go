package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// idlePort is where connections end that do nothing.
const idlePort = "7009"

// idleTimeout is how long ten thousand connections may take to open.
const idleTimeout = 90 * time.Second

// openIdle lets the guest open n connections and keep them.
func (s *stand) openIdle(ctx context.Context, n int) error {
	_, err := s.inGuest(ctx, idleTimeout, fmt.Sprintf("guest-agent idle %s %d >/tmp/idle 2>&1 & echo $! >/tmp/idle.pid; "+
		"while kill -0 $(cat /tmp/idle.pid) && ! grep -q open /tmp/idle; do sleep 0.2; done; cat /tmp/idle; grep -q open /tmp/idle",
		net.JoinHostPort(lab.Peer4, idlePort), n))
	return err
}

// closeIdle ends them, and waits until the backend has done with most of that.
func (s *stand) closeIdle(ctx context.Context) error {
	_, err := s.inGuest(ctx, idleTimeout, "kill $(cat /tmp/idle.pid); rm -f /tmp/idle; sleep 3")
	return err
}
