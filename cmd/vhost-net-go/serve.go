package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// serve runs the data path: the workers, and the server that hands them the rings
// of one frontend after another.
func serve(ctx context.Context, j job) error {
	d := &device{log: j.log.Named("net"), mtu: uint16(j.plan.MTU), pairs: cmp.Or(j.opts.Queues, options.MaxQueues)}
	hidden := uint64(featureMQ)
	if j.opts.Queues > 0 {
		hidden = 0 // the user knows the frontend
	}
	server, err := vhostuser.New(vhostuser.Config{
		Device: d, Logger: j.log.Named("vhost-user"), OneOff: j.opts.OneOff,
		ProtocolFeatures: protocolFeatures(j.opts), FrontendServed: hidden,
	})
	if err != nil {
		return fmt.Errorf("set up the vhost-user server: %w", err)
	}
	d.broken = server.RingBroken
	cfg := networkConfig(j.plan)
	cfg.TxBatchFrames, cfg.FlushFrames = j.opts.TxBatchFrames, j.opts.FlushFrames
	cfg.Capture = j.capture
	cfg.Sockets = j.sockets
	if !j.opts.NoBigTCP {
		cfg.MaxFrameBytes = j.opts.GSOMaxBytes
	}
	cfg.PingForbidden = func(err error) {
		d.log.Warn("the host forbids ping, so the guest's stays unanswered; see net.ipv4.ping_group_range", "error", err)
	}
	memory := newReclaimer()
	cfg.Shrunk = memory.wanted
	if d.workers, err = netstack.NewGroup(cfg, d.pairs, d.ringBroken); err != nil {
		return err
	}
	defer d.workers.Close()
	go memory.run(ctx, debug.FreeOSMemory, reclaimRest)
	// Whoever was told that we are ready may signal at once.
	signals, stop := reportSignals()
	defer stop()
	if err := j.ready(d.workers.Forwards()); err != nil {
		return err
	}
	go j.follow(ctx, func(l netstack.Live) (err error) {
		d.workers.Park(func() { err = d.workers.Follow(l) })
		return err
	})
	go report(ctx, d.workers, d.log, signals, time.Duration(j.opts.StatsSeconds)*time.Second)
	return server.Serve(ctx, j.source)
}

// protocolFeatures leaves out the channel for requests of ours where QEMU's own
// starter of passt handed us the socket. QEMU closes the number of its end a
// second time when it has started us (seen in 11.1, net/passt.c), and by then
// that number is the channel's, if there is one; another descriptor takes it and
// is read as the channel. No request is ever sent on it.
func protocolFeatures(o options.Options) uint64 {
	if o.Passt && o.FD >= 0 {
		return vhostuser.DefaultProtocolFeatures &^ wire.ProtocolBackendReq
	}
	return vhostuser.DefaultProtocolFeatures
}

// networkConfig is the plan in netstack's terms.
func networkConfig(p plan.Plan) netstack.Config {
	c := netstack.Config{
		GatewayMAC: p.GatewayMAC, MTU: p.MTU, AnnounceMTU: p.AnnounceMTU,
		IPv4: netstack.IPv4{
			Enabled: p.IPv4.Enabled, Guest: p.IPv4.Guest,
			Gateway: p.IPv4.Gateway, PrefixLen: p.IPv4.PrefixLen, OwnGateway: p.IPv4.OwnGateway,
		},
		IPv6: netstack.IPv6{
			Enabled: p.IPv6.Enabled, Guest: p.IPv6.Guest, Lease: p.IPv6.Lease,
			Prefix: p.IPv6.Prefix, Gateway: p.IPv6.Gateway, NoDefault: !p.IPv6.HostRoute,
		},
		DNS: p.DNS, Search: p.Search, Hostname: p.Hostname, FQDN: p.FQDN,
		Boot:            netstack.Boot{File: p.BootFile, Server: p.BootServer},
		MapHostLoopback: addrmap.Pair{V4: p.MapHostLoopback4, V6: p.MapHostLoopback6},
		MapGuest:        addrmap.Pair{V4: p.MapGuest4, V6: p.MapGuest6},
		Outbound4:       p.Outbound4, Outbound6: p.Outbound6,
		OutboundIf4: p.OutboundIf4, OutboundIf6: p.OutboundIf6,
		Forwards: p.Forwards, FreeBind: p.FreeBind,
		NoTCP: p.NoTCP, NoUDP: p.NoUDP, NoICMP: p.NoICMP,
		NoDHCP: p.NoDHCP, NoDHCP6: p.NoDHCP6, NoNDP: p.NoNDP, NoRA: p.NoRA,
	}
	c.DNSForward = dnsForwards(p)
	return c
}

// dnsForwards are the plan's redirections of resolvers.
func dnsForwards(p plan.Plan) (list []addrmap.Forward) {
	all := append([]plan.Redirect{{Seen: p.DNSForward4, Host: p.DNSHost4}, {Seen: p.DNSForward6, Host: p.DNSHost6}}, p.DNSMoved...)
	for _, f := range all {
		if f.Seen.IsValid() && f.Host.IsValid() {
			list = append(list, addrmap.Forward{Seen: f.Seen, Host: f.Host.WithZone("")})
		}
	}
	return list
}
