package plan

import (
	"net/netip"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

// planDNS decides which resolvers the guest is told of, and where queries to
// the forwarding addresses go.
//
// A resolver that the guest can reach under its own address is announced as it
// is. One that it cannot (a loopback address such as 127.0.0.53, one with a
// zone, the guest's own) is announced as the forwarding address: --dns-forward,
// or else the gateway. Loopback is never announced (RFC 1122 section 3.2.1.3).
func (p *Plan) planDNS(o options.Options, host hostconf.State) {
	p.DNSForward4, p.DNSForward6 = o.DNSForward4, o.DNSForward6
	if p.DNSForward4.IsValid() {
		p.DNSHost4 = firstOf(true, o.DNSHost4, o.DNSHost6, host.Resolvers)
	}
	if p.DNSForward6.IsValid() {
		p.DNSHost6 = firstOf(false, o.DNSHost6, o.DNSHost4, host.Resolvers)
	}
	switch {
	case o.NoDNS:
	case len(o.DNS) > 0:
		p.DNS = o.DNS
	case o.DNSHost4.IsValid() || o.DNSHost6.IsValid():
		p.forwardDNS(o.DNSHost4)
		p.forwardDNS(o.DNSHost6)
	default:
		p.announceHost(host.Resolvers)
	}
	if o.NoDHCPDNS {
		p.DNS = nil
	}
}

func (p *Plan) announceHost(resolvers []netip.Addr) {
	for _, r := range resolvers {
		switch {
		case r.Is6() && r.IsLinkLocalUnicast() && r.Zone() == "":
			// On which interface? Not even the host can ask it.
		case !p.reachable(r):
			p.forwardDNS(r)
		case p.enabled(r.Is4()):
			p.announce(r)
		}
	}
	if len(p.DNS) == 0 && len(resolvers) > 0 {
		p.forwardDNS(resolvers[0]) // all are of the family the guest lacks
	}
}

// forwardDNS announces the forwarding address in place of resolver: that of
// its family, or of the other if the guest lacks the first.
func (p *Plan) forwardDNS(resolver netip.Addr) {
	if !resolver.IsValid() || (!p.IPv4.Enabled && !p.IPv6.Enabled) {
		return
	}
	forward, host, gateway := &p.DNSForward4, &p.DNSHost4, p.IPv4.Gateway
	if !p.IPv4.Enabled || (resolver.Is6() && p.IPv6.Enabled) {
		forward, host, gateway = &p.DNSForward6, &p.DNSHost6, p.IPv6.Gateway
	}
	if !forward.IsValid() {
		*forward = gateway
	}
	if !host.IsValid() {
		*host = local(resolver)
	}
	p.announce(*forward)
}

func (p *Plan) announce(a netip.Addr) {
	if !slices.Contains(p.DNS, a) {
		p.DNS = append(p.DNS, a)
	}
}

func (p *Plan) enabled(v4 bool) bool {
	if v4 {
		return p.IPv4.Enabled
	}
	return p.IPv6.Enabled
}

// reachable reports whether the guest gets to r under that address.
func (p *Plan) reachable(r netip.Addr) bool {
	return !r.IsLoopback() && !r.IsUnspecified() && !(r.Is6() && r.IsLinkLocalUnicast()) &&
		r.Zone() == "" && !p.isGuest(r)
}

// isGuest reports whether a is an address that the guest has or may get.
func (p *Plan) isGuest(a netip.Addr) bool {
	return a == p.IPv4.Guest || a == p.IPv6.Guest || a == p.IPv6.Lease
}

// local gives the unspecified address the meaning it has as a destination on
// Linux: this machine.
func local(a netip.Addr) netip.Addr {
	switch a {
	case netip.IPv4Unspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case netip.IPv6Unspecified():
		return netip.IPv6Loopback()
	}
	return a
}

// firstOf picks a resolver: the one asked for, for this family or the other; the
// host's first of the family, or of the other; the host itself.
func firstOf(v4 bool, asked, other netip.Addr, resolvers []netip.Addr) netip.Addr {
	if asked.IsValid() {
		return asked
	}
	if other.IsValid() {
		return other
	}
	for _, r := range resolvers {
		if r.Is4() == v4 {
			return local(r)
		}
	}
	if len(resolvers) > 0 {
		return local(resolvers[0])
	}
	return local(netip.IPv4Unspecified())
}
