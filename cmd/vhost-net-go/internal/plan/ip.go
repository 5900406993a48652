package plan

import (
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

func planIPv4(o options.Options, host hostconf.Family) (IPv4, error) {
	if o.IPv6Only {
		return IPv4{}, nil
	}
	guest, private := guest4(o, host)
	if o.PrefixLen4 != 0 {
		guest = netip.PrefixFrom(guest.Addr(), o.PrefixLen4)
	}
	switch err := usable4(guest); {
	case err == nil:
	case o.Addr4.IsValid():
		return IPv4{}, fmt.Errorf("-a, --address %q: %w", guest, err)
	case o.PrefixLen4 != 0:
		return IPv4{}, fmt.Errorf("-n, --netmask \"%d\": %w", o.PrefixLen4, err)
	}
	p := IPv4{Enabled: true, Guest: guest.Addr(), PrefixLen: guest.Bits()}
	switch {
	case o.Gateway4.IsValid():
		p.Gateway = o.Gateway4
	case private:
		_, p.Gateway = Private()
	default:
		p.Gateway = gateway4(guest, host, o.Addr4.IsValid())
	}
	if p.Gateway == p.Guest {
		return IPv4{}, fmt.Errorf("-g, --gateway %q: is the guest's own address", p.Gateway)
	}
	p.OffLink = !guest.Contains(p.Gateway)
	p.OwnGateway = ownGateway(p.Gateway, host)
	return p, nil
}

// ownGateway says whether no host can have the gateway's address.
func ownGateway(gw netip.Addr, host hostconf.Family) bool {
	onHostLink := host.Addr.IsValid() && host.Addr.Contains(gw)
	return gw != host.Gateway && gw != host.Peer && !onHostLink
}

// guest4 returns the guest's address with its prefix length; private says that
// it is the fallback.
func guest4(o options.Options, host hostconf.Family) (guest netip.Prefix, private bool) {
	switch {
	case o.Addr4.IsValid() && host.Addr.IsValid() && host.Addr.Contains(o.Addr4):
		return netip.PrefixFrom(o.Addr4, host.Addr.Bits()), false
	case o.Addr4.IsValid():
		return netip.PrefixFrom(o.Addr4, classful(o.Addr4)), false
	case host.Addr.IsValid():
		return host.Addr, false
	}
	guest, _ = Private()
	return guest, true
}

// classful is the prefix length that an address had before there were any
// (RFC 791 section 2.3), as passt assumes it for a bare address.
func classful(a netip.Addr) int {
	switch b := a.As4()[0]; {
	case b < 128:
		return 8
	case b < 192:
		return 16
	}
	return 24
}

// usable4 refuses the addresses that a subnet keeps for itself (RFC 1122
// section 3.2.1.3); a /31 has none (RFC 3021), nor has a /32.
func usable4(p netip.Prefix) error {
	if p.Bits() >= 31 {
		return nil
	}
	switch p.Addr() {
	case p.Masked().Addr():
		return fmt.Errorf("%s is the address of the network %s itself", p.Addr(), p.Masked())
	case broadcast4(p):
		return fmt.Errorf("%s is the broadcast address of %s", p.Addr(), p.Masked())
	}
	return nil
}

func broadcast4(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}

// gateway4 picks the gateway: the host's if it has one and it can serve, or
// else some other address of the guest's network. With an address of the
// user's the host's gateway serves only within the same network.
func gateway4(guest netip.Prefix, host hostconf.Family, ownAddr bool) netip.Addr {
	gw := host.Gateway
	if gw.IsValid() && gw.Is4() && gw != guest.Addr() && (!ownAddr || guest.Contains(gw)) {
		return gw
	}
	if host.Peer.IsValid() && !ownAddr && host.Peer != guest.Addr() {
		return host.Peer
	}
	return neighbour4(guest)
}

// neighbour4 returns the lowest usable address of p that is not p's own, and
// the private network's gateway if there is no room for one.
func neighbour4(p netip.Prefix) netip.Addr {
	if p.Bits() == 32 {
		_, gw := Private()
		return gw
	}
	a := p.Masked().Addr()
	if p.Bits() < 31 {
		a = a.Next() // past the network's own address
	}
	if a == p.Addr() {
		a = a.Next()
	}
	return a
}

func planIPv6(o options.Options, host hostconf.State) IPv6 {
	if o.IPv4Only || !host.HasIPv6 {
		return IPv6{}
	}
	p := IPv6{Enabled: true, Guest: o.Addr6, Gateway: gateway6(), HostRoute: host.V6.DefaultRoute}
	switch {
	case o.Addr6.IsValid():
		p.Prefix = netip.PrefixFrom(o.Addr6, 64).Masked()
	case host.V6.Addr.IsValid():
		p.Prefix = netip.PrefixFrom(host.V6.Addr.Addr(), 64).Masked()
	default:
		p.Prefix = host.ULA
	}
	switch {
	case o.NoDHCP6:
	case o.Addr6.IsValid():
		p.Lease = o.Addr6
	case host.V6.Addr.IsValid():
		p.Lease = host.V6.Addr.Addr()
	default:
		p.Lease = privateLease6(p.Prefix)
	}
	switch gw := host.V6.Gateway; {
	case o.Gateway6.IsValid():
		p.Gateway = o.Gateway6
	case gw.Is6() && gw.IsLinkLocalUnicast():
		p.Gateway = gw.WithZone("")
	}
	return p
}

// privateLease6 is the guest's address in a prefix of our own; it ends like that
// of Private.
func privateLease6(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As16()
	a[13], a[15] = 2, 1
	return netip.AddrFrom16(a)
}
