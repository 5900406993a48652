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

// reportSignals begins to take the signals that ask for counters.
func reportSignals() (sig <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGUSR1)
	return c, func() { signal.Stop(c) }
}

// report logs the worker's counters at each signal, and, with an interval, when
// they have changed within it, until ctx is done.
func report(ctx context.Context, w *netstack.Worker, log hclog.Logger, sig <-chan os.Signal, every time.Duration) {
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
