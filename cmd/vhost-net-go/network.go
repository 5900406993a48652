package main

import (
	"fmt"
	"net"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
)

// network looks at the host and plans the guest's network.
func network(opts options.Options, log *logging.Log) (plan.Plan, hostconf.State, error) {
	for _, o := range []struct{ option, name string }{
		{"--outbound-if4", opts.OutboundIf4},
		{"--outbound-if6", opts.OutboundIf6},
	} {
		if o.name == "" {
			continue
		}
		if _, err := net.InterfaceByName(o.name); err != nil {
			return plan.Plan{}, hostconf.State{}, fmt.Errorf("%s %q: %w", o.option, o.name, hostconf.ErrNoInterface)
		}
	}
	host, err := hostconf.Read(hostSource(opts))
	if err != nil {
		return plan.Plan{}, hostconf.State{}, fmt.Errorf("-i, --interface %w", err)
	}
	log.Debug("host", "ipv4", host.V4, "ipv6", host.V6, "resolvers", host.Resolvers, "search", host.Search)
	p, warnings, err := plan.Make(opts, host)
	if err != nil {
		return plan.Plan{}, hostconf.State{}, err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	return p, host, nil
}
