package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
)

// reportOnSignal logs the worker's counters at each SIGUSR1, until ctx is done.
func reportOnSignal(ctx context.Context, w *netstack.Worker, log hclog.Logger) {
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, unix.SIGUSR1)
	defer signal.Stop(sig)
	for {
		select {
		case <-ctx.Done():
			return
		case <-sig:
			s := w.Snapshot()
			log.Info("counters", "worker", fmt.Sprintf("%+v", s.Counters),
				"queue", fmt.Sprintf("%+v", s.Queue), "tcp", fmt.Sprintf("%+v", s.TCP), "tcpFlows", s.TCPFlows,
				"udp", fmt.Sprintf("%+v", s.UDP), "udpFlows", s.UDPFlows,
				"ping", fmt.Sprintf("%+v", s.Ping), "reassembly", fmt.Sprintf("%+v", s.Reassembly))
		}
	}
}
