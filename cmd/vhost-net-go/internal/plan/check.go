package plan

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

var errNoIPv6 = errors.New("the host's kernel has IPv6 switched off")

// checkHost refuses what needs IPv6 on a host without it.
func checkHost(o options.Options, host hostconf.State) error {
	if host.HasIPv6 {
		return nil
	}
	if o.IPv6Only {
		return fmt.Errorf("-6, --ipv6-only: %w", errNoIPv6)
	}
	for _, given := range []struct {
		name string
		addr netip.Addr
	}{
		{"-a, --address", o.Addr6},
		{"-g, --gateway", o.Gateway6},
		{"-o, --outbound", o.Outbound6},
		{"--dns-forward", o.DNSForward6},
		{"--map-host-loopback", o.MapHostLoopback6},
		{"--map-guest-addr", o.MapGuest6},
	} {
		if given.addr.IsValid() {
			return fmt.Errorf("%s %q: %w", given.name, given.addr, errNoIPv6)
		}
	}
	for _, r := range o.Forwards {
		if r.ListenAddr.Is6() {
			return fmt.Errorf("--%s-ports %q: %w", r.Proto, r.Spec(), errNoIPv6)
		}
	}
	return nil
}

// checkOwn refuses addresses that the guest would keep to itself.
func (p *Plan) checkOwn() error {
	for _, given := range []struct {
		name string
		addr netip.Addr
	}{
		{"--map-host-loopback", p.MapHostLoopback4},
		{"--map-host-loopback", p.MapHostLoopback6},
		{"--map-guest-addr", p.MapGuest4},
		{"--map-guest-addr", p.MapGuest6},
		{"--dns-forward", p.DNSForward4},
		{"--dns-forward", p.DNSForward6},
	} {
		if given.addr.IsValid() && p.isGuest(given.addr) {
			return fmt.Errorf("%s %q: is the guest's own address, which never leaves the guest", given.name, given.addr)
		}
	}
	return nil
}
