package main

import (
	"cmp"
	"fmt"
	"net"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
)

// network looks at the host and plans the guest's network.
func network(opts options.Options, log *logging.Log) (plan.Plan, error) {
	for _, o := range []struct{ option, name string }{
		{"--outbound-if4", opts.OutboundIf4},
		{"--outbound-if6", opts.OutboundIf6},
	} {
		if o.name == "" {
			continue
		}
		if _, err := net.InterfaceByName(o.name); err != nil {
			return plan.Plan{}, fmt.Errorf("%s %q: %w", o.option, o.name, hostconf.ErrNoInterface)
		}
	}
	src := hostconf.DefaultSource()
	src.Interface4 = cmp.Or(opts.Interface, opts.OutboundIf4)
	src.Interface6 = cmp.Or(opts.Interface, opts.OutboundIf6)
	host, err := hostconf.Read(src)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("-i, --interface %w", err)
	}
	log.Debug("host", "ipv4", host.V4, "ipv6", host.V6, "resolvers", host.Resolvers, "search", host.Search)
	p, warnings, err := plan.Make(opts, host)
	if err != nil {
		return plan.Plan{}, err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	return p, nil
}
