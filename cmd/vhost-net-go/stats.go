package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
)

// report logs the worker's counters at each SIGUSR1, and, with an interval, when
// they have changed within it, until ctx is done.
func report(ctx context.Context, w *netstack.Worker, log hclog.Logger, every time.Duration) {
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, unix.SIGUSR1)
	defer signal.Stop(sig)
	var tick <-chan time.Time
	if every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		tick = t.C
	}
	var last netstack.Snapshot
	for {
		select {
		case <-ctx.Done():
			return
		case <-sig:
			last = w.Snapshot()
			logCounters(log, w, last)
		case <-tick:
			s := w.Snapshot()
			// Looking at them makes a turn.
			s.Counters.Turns, last.Counters.Turns = 0, 0
			if s != last {
				logCounters(log, w, s)
			}
			last = s
		}
	}
}

func logCounters(log hclog.Logger, w *netstack.Worker, s netstack.Snapshot) {
	log.Info("counters", "worker", fmt.Sprintf("%+v", s.Counters),
		"queue", fmt.Sprintf("%+v", s.Queue), "tcp", fmt.Sprintf("%+v", s.TCP), "tcpFlows", s.TCPFlows,
		"udp", fmt.Sprintf("%+v", s.UDP), "udpFlows", s.UDPFlows,
		"ping", fmt.Sprintf("%+v", s.Ping), "reassembly", fmt.Sprintf("%+v", s.Reassembly),
		"ports", portsText(w.Forwards()))
}

// portsText lists the forwarded ports.
func portsText(forwards []netstack.Forward) string {
	var parts []string
	for _, f := range forwards {
		parts = append(parts, portText(f))
	}
	return strings.Join(parts, ", ")
}
