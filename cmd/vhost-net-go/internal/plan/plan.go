// Package plan decides what network the guest gets, from what the user asked
// for and what the host has.
//
// Make is a pure function: it reads no file, asks no kernel and can be tested
// as a table. The rules, per address family: what an option says; else what
// the host's template interface has; else a private network that works on any
// host (169.254.2.1/16 with gateway 169.254.2.2; a unique local IPv6 prefix).
package plan

import (
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

// Link values that apply unless an option says otherwise.
const (
	// DefaultMTU is announced, in bytes, where the host has no uplink to take
	// it from, and assumed with --mtu 0: an Ethernet driver's own default.
	DefaultMTU = 1500
	// MinMTU and MaxMTU bound what is taken from an uplink: the least that
	// IPv6 works with (RFC 8200 section 5), and the largest of a guest.
	MinMTU = 1280
	MaxMTU = 65520
)

// DefaultMAC returns the gateway's hardware address: locally administered, and
// the one that passt's users know.
func DefaultMAC() [6]byte { return [6]byte{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55} }

// Private returns the IPv4 network for hosts that have none to copy.
func Private() (guest netip.Prefix, gateway netip.Addr) {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 2, 1}), 16), netip.AddrFrom4([4]byte{169, 254, 2, 2})
}

// gateway6 is the router's address when the host's own cannot be copied.
func gateway6() netip.Addr { return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 15: 1}) }

// IPv4 is the guest's IPv4 network. Gateway may lie outside the prefix
// (OffLink), as it does on hosts with a /32; the guest then needs a host route
// to it (RFC 3442).
type IPv4 struct {
	Enabled        bool
	Guest, Gateway netip.Addr
	PrefixLen      int
	OffLink        bool
	// OwnGateway says that no router has the gateway's address: it is ours.
	OwnGateway bool
}

// IPv6 is the guest's IPv6 network. Guest is invalid unless asked for: the
// guest forms its own address in Prefix (64 bits). Lease is the address that it
// gets if it asks by DHCPv6; invalid: it is told of no DHCPv6. Gateway is
// link-local.
// HostRoute says that the host itself has a default route; without it a router
// lifetime of 0 keeps the guest from preferring a dead end (RFC 4861 section
// 4.2).
type IPv6 struct {
	Enabled   bool
	Guest     netip.Addr
	Lease     netip.Addr
	Prefix    netip.Prefix
	Gateway   netip.Addr
	HostRoute bool
}

// Plan is the whole of it. Addresses that do not apply are the zero Addr.
type Plan struct {
	GatewayMAC [6]byte
	// MTU is in bytes; AnnounceMTU says whether the guest is told.
	MTU         int
	AnnounceMTU bool
	IPv4        IPv4
	IPv6        IPv6

	// DNS and Search are announced to the guest.
	DNS      []netip.Addr
	Search   []string
	Hostname string
	FQDN     string
	// BootFile is what a guest that boots from the network loads, from
	// BootServer unless it is an URL.
	BootFile   string
	BootServer netip.Addr
	// A query to port 53 or 853 of DNSForward4 goes to DNSHost4, likewise
	// for 6. The host address may be of loopback, have a zone, and may be of
	// the other family when the guest has only one.
	DNSForward4, DNSForward6 netip.Addr
	DNSHost4, DNSHost6       netip.Addr
	// DNSMoved are resolvers that the guest was told of and the host has given
	// up; see Follow.
	DNSMoved []Redirect

	MapHostLoopback4, MapHostLoopback6 netip.Addr
	MapGuest4, MapGuest6               netip.Addr
	Outbound4, Outbound6               netip.Addr
	OutboundIf4, OutboundIf6           string
	// Forwards have a listening address of the only family if there is one,
	// and "all" leaves out the ports of outgoing connections.
	Forwards []forward.Rule
	FreeBind bool

	NoTCP, NoUDP, NoICMP, NoDHCP, NoDHCP6, NoNDP, NoRA bool
}

// uplinkMTU is the MTU of the interface that the host's network is copied from.
// A larger one in the guest would gain nothing, since segments cross the rings
// in frames of 64 KiB whatever the MTU is, and it would break the datagrams that
// a guest forbids to fragment because its own link takes them.
func uplinkMTU(host hostconf.State) int {
	mtu := 0
	for _, f := range []hostconf.Family{host.V4, host.V6} {
		if f.MTU > 0 && (mtu == 0 || f.MTU < mtu) {
			mtu = f.MTU
		}
	}
	if mtu == 0 {
		return DefaultMTU
	}
	return min(max(mtu, MinMTU), MaxMTU)
}

// Make combines both. The error is for an option that this host cannot meet,
// or that meets another option only now that the addresses are known; it names
// the option and its value. Warnings are lines for the log, at most one.
func Make(o options.Options, host hostconf.State) (p Plan, warnings []string, err error) {
	p = Plan{
		GatewayMAC:       o.MAC,
		MTU:              uplinkMTU(host),
		AnnounceMTU:      true,
		Hostname:         o.Hostname,
		FQDN:             o.FQDN,
		BootFile:         o.BootFile,
		BootServer:       o.BootServer,
		MapHostLoopback4: o.MapHostLoopback4,
		MapHostLoopback6: o.MapHostLoopback6,
		MapGuest4:        o.MapGuest4,
		MapGuest6:        o.MapGuest6,
		Outbound4:        o.Outbound4,
		Outbound6:        o.Outbound6,
		OutboundIf4:      o.OutboundIf4,
		OutboundIf6:      o.OutboundIf6,
		FreeBind:         o.FreeBind,
		NoTCP:            o.NoTCP,
		NoUDP:            o.NoUDP,
		NoICMP:           o.NoICMP,
		NoDHCP:           o.NoDHCP,
		NoDHCP6:          o.NoDHCP6,
		NoNDP:            o.NoNDP,
		NoRA:             o.NoRA,
	}
	if p.GatewayMAC == [6]byte{} {
		p.GatewayMAC = DefaultMAC()
	}
	if o.MTUSet {
		p.MTU, p.AnnounceMTU = o.MTU, o.MTU != 0
		if !p.AnnounceMTU {
			p.MTU = DefaultMTU
		}
	}
	if err := checkHost(o, host); err != nil {
		return Plan{}, nil, err
	}
	if p.IPv4, err = planIPv4(o, host.V4); err != nil {
		return Plan{}, nil, err
	}
	p.IPv6 = planIPv6(o, host)
	p.planDNS(o, host)
	p.planSearch(o, host)
	p.Forwards = planForwards(o.Forwards, p.IPv4.Enabled, p.IPv6.Enabled, host.LocalPorts)
	if err := p.checkOwn(); err != nil {
		return Plan{}, nil, err
	}
	if host.Warning != "" {
		warnings = append(warnings, host.Warning)
	}
	return p, warnings, nil
}

// planForwards narrows rules for both families to the one the guest has, and
// keeps those that take every port from the ports of outgoing connections.
func planForwards(rules []forward.Rule, v4, v6 bool, outgoing [2]uint16) []forward.Rule {
	if len(rules) == 0 {
		return nil
	}
	out := make([]forward.Rule, len(rules))
	copy(out, rules)
	for i := range out {
		if outgoing != ([2]uint16{}) {
			out[i] = out[i].Without(forward.Range{First: outgoing[0], Last: outgoing[1]})
		}
		switch {
		case out[i].ListenAddr.IsValid():
		case !v6:
			out[i].ListenAddr = netip.IPv4Unspecified()
		case !v4:
			out[i].ListenAddr = netip.IPv6Unspecified()
		}
	}
	return out
}

func (p *Plan) planSearch(o options.Options, host hostconf.State) {
	switch {
	case o.NoSearch || o.NoDHCPSearch:
	case len(o.Search) > 0:
		p.Search = o.Search
	default:
		p.Search = host.Search
	}
}
