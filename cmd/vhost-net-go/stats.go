package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
)

// reportSignals begins to take the signals that ask for counters.
func reportSignals() (sig <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGUSR1)
	return c, func() { signal.Stop(c) }
}

// report logs the workers' counters at each signal, and, with an interval, when
// they have changed within it, until ctx is done.
func report(ctx context.Context, g *netstack.Group, log hclog.Logger, sig <-chan os.Signal, every time.Duration) {
	var tick <-chan time.Time
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		tick = t.C
	}
	var last []netstack.Snapshot
	for {
		select {
		case <-ctx.Done():
			return
		case <-sig:
			last = g.Snapshots()
			logCounters(log, g, last)
		case <-tick:
			all := g.Snapshots()
			// Looking at them makes a turn.
			for i := range all {
				all[i].Counters.Turns = 0
			}
			if !slices.Equal(all, last) {
				logCounters(log, g, all)
			}
			last = all
		}
	}
}

// logCounters logs those of each worker, in the order of the queue pairs.
func logCounters(log hclog.Logger, g *netstack.Group, all []netstack.Snapshot) {
	for pair, s := range all {
		log.Info("counters", "pair", pair, "worker", fmt.Sprintf("%+v", s.Counters),
			"queue", fmt.Sprintf("%+v", s.Queue), "tcp", fmt.Sprintf("%+v", s.TCP), "tcpFlows", s.TCPFlows,
			"udp", fmt.Sprintf("%+v", s.UDP), "udpFlows", s.UDPFlows,
			"ping", fmt.Sprintf("%+v", s.Ping), "reassembly", fmt.Sprintf("%+v", s.Reassembly),
			"moves", fmt.Sprintf("%+v", s.Moves), "ports", portsText(g.Forwards()))
	}
}

// portsText lists the forwarded ports.
func portsText(forwards []netstack.Forward) string {
	var parts []string
	for _, f := range forwards {
		parts = append(parts, portText(f))
	}
	return strings.Join(parts, ", ")
}
