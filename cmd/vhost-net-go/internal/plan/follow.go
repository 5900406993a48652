package plan

import (
	"net/netip"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

// Redirect sends queries to the resolver Seen to the resolver Host.
type Redirect struct {
	Seen, Host netip.Addr
}

// maxMoved bounds the resolvers that are remembered.
const maxMoved = 12

// Follow returns the plan for a host that has changed under a running guest. The
// guest keeps its addresses and gateways. It is told of the host's new
// resolvers, and since it may take long to ask, or never use them, its queries
// to the old ones go to the host's first new one.
func (p Plan) Follow(o options.Options, host hostconf.State) Plan {
	n := p
	if n.IPv4.Enabled {
		n.IPv4.OwnGateway = ownGateway(n.IPv4.Gateway, host.V4)
	}
	n.IPv6.HostRoute = n.IPv6.Enabled && host.V6.DefaultRoute
	n.DNS, n.DNSMoved, n.Search = nil, nil, nil
	n.DNSForward4, n.DNSForward6, n.DNSHost4, n.DNSHost6 = netip.Addr{}, netip.Addr{}, netip.Addr{}, netip.Addr{}
	n.planDNS(o, host)
	n.planSearch(o, host)
	if len(o.DNS) > 0 || o.NoDNS {
		return n // what the guest was told is the user's
	}
	for _, old := range p.DNSMoved {
		n.move(o, host, old.Seen)
	}
	for _, old := range p.DNS {
		n.move(o, host, old)
	}
	return n
}

// move redirects queries to the resolver old, unless it is in use.
func (n *Plan) move(o options.Options, host hostconf.State, old netip.Addr) {
	has := func(r Redirect) bool { return r.Seen == old }
	if slices.Contains(n.DNS, old) || old == n.DNSForward4 || old == n.DNSForward6 || slices.ContainsFunc(n.DNSMoved, has) {
		return
	}
	to := firstOf(old.Is4(), o.DNSHost4, o.DNSHost6, host.Resolvers)
	if !old.Is4() {
		to = firstOf(false, o.DNSHost6, o.DNSHost4, host.Resolvers)
	}
	if to == old {
		return
	}
	n.DNSMoved = append(n.DNSMoved, Redirect{Seen: old, Host: to})
	if len(n.DNSMoved) > maxMoved {
		n.DNSMoved = n.DNSMoved[1:]
	}
}
