package main

import (
	"cmp"
	"context"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
	"github.com/vhost-net-go/vhost-net-go/netstack"
)

// hostSource is where the host's network is looked up.
func hostSource(opts options.Options) hostconf.Source {
	src := hostconf.DefaultSource()
	src.Interface4 = cmp.Or(opts.Interface, opts.OutboundIf4)
	src.Interface6 = cmp.Or(opts.Interface, opts.OutboundIf6)
	return src
}

// follow keeps what may change of the guest's network like the host's, until
// ctx is done.
func (j job) follow(ctx context.Context, apply func(netstack.Live) error) {
	log := j.log.Named("host")
	p := j.plan
	src := hostSource(j.opts)
	src.ReadResolvConf = j.readResolvConf
	err := hostconf.Watch(ctx, src, j.host, func(host hostconf.State) {
		log.Debug("changed", "ipv4", host.V4, "ipv6", host.V6, "resolvers", host.Resolvers, "search", host.Search)
		next := p.Follow(j.opts, host)
		if err := apply(live(next)); err != nil {
			log.Warn("cannot follow a change of the host's network", "error", err)
			return
		}
		p = next
	}, func(err error) {
		log.Warn("the host's resolvers stay as last known", "error", err)
	})
	if err != nil {
		log.Warn("changes of the host's network will not be seen", "error", err)
	}
}

// live is the part of the plan that can change.
func live(p plan.Plan) netstack.Live {
	return netstack.Live{
		DNS: p.DNS, Search: p.Search, DNSForward: dnsForwards(p),
		OwnGateway: p.IPv4.OwnGateway, NoDefault: !p.IPv6.HostRoute,
	}
}
