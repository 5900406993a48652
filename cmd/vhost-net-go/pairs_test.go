package main

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sandbox"
	"github.com/vhost-net-go/vhost-net-go/netstack"
)

// pairsInSandbox makes a group as serve does, enters the sandbox, and has the
// workers of further queue pairs made there, as a frontend does that starts them.
// It prints how many flows each of them may have.
func pairsInSandbox(stdout, stderr io.Writer) int {
	g, err := netstack.NewGroup(netstack.Config{
		GatewayMAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: 1500,
		IPv4: netstack.IPv4{
			Enabled: true, PrefixLen: 24,
			Guest: netip.MustParseAddr("10.0.2.15"), Gateway: netip.MustParseAddr("10.0.2.2"),
		},
	}, options.MaxQueues, func(int, bool, error) {})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer g.Close()
	if _, err := sandbox.Enter(sandbox.Config{Mode: sandbox.Auto}); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	g.Park(func() {
		for pair := range options.MaxQueues {
			if err = g.AttachTx(pair, netstack.Tx{KickFD: -1}); err != nil {
				return
			}
		}
	})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	all := g.Snapshots()
	for pair, s := range all {
		if s.TCPMaxFlows != all[0].TCPMaxFlows || s.UDPMaxFlows != all[0].UDPMaxFlows {
			fmt.Fprintf(stderr, "pair %d: %d and %d flows, the first: %d and %d\n", pair, s.TCPMaxFlows, s.UDPMaxFlows, all[0].TCPMaxFlows, all[0].UDPMaxFlows)
		}
	}
	fmt.Fprintf(stdout, "%d pairs\n", len(all))
	return 0
}
