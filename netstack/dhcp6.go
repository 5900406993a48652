package netstack

import (
	"net/netip"
	"strings"

	"github.com/vhost-net-go/vhost-net-go/netstack/dhcp6"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
)

// learnProbe takes the address that the guest is about to use for its own, as
// long as it was not heard under any.
func (s *services) learnProbe(l *link.Link) {
	if s.ndpServer == nil || s.heard6 {
		return
	}
	if a, ok := s.ndpServer.Probed(); ok {
		l.Guest6 = header.AddrFromNetip(a)
	}
}

// leased notes that DHCPv6 may have given the guest its address, under which it
// is reached as long as it was not heard under any.
func (s *services) leased(l *link.Link) {
	if s.dhcp6Server == nil || !s.dhcp6Server.Committed() {
		return
	}
	if s.ndpServer != nil {
		s.ndpServer.Assign(s.lease6)
	}
	if !s.heard6 {
		l.Guest6 = header.AddrFromNetip(s.lease6)
	}
}

// lease is the address that DHCPv6 gives, or the zero Addr.
func (c IPv6) lease() netip.Addr {
	if c.Lease.IsValid() {
		return c.Lease
	}
	return c.Guest
}

func (c Config) dhcp6(l *link.Link) dhcp6.Config {
	d := dhcp6.Config{
		MAC: c.GatewayMAC, LinkLocal: l.OurLinkLocal.Netip(),
		Addr: c.IPv6.lease(), Prefix: c.IPv6.Prefix,
		DNS: c.DNS, Search: c.Search, FQDN: c.FQDN,
	}
	if strings.Contains(c.Boot.File, "://") {
		d.BootURL = c.Boot.File
	}
	return d
}
