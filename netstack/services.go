package netstack

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/arp"
	"github.com/vhost-net-go/vhost-net-go/netstack/dhcp4"
	"github.com/vhost-net-go/vhost-net-go/netstack/dhcp6"
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/ndp"
)

// services are what a guest expects on its link: neighbours, a router, a DHCP
// server. A few frames a minute; they may allocate.
type services struct {
	noV4, noV6, noRA bool
	// Typed nil pointers must not become non-nil responders, so each is set
	// only where there is one.
	arp, ndp, dhcp, dhcp6 responder
	arpServer             *arp.Responder
	ndpServer             *ndp.Responder
	dhcp4Server           *dhcp4.Server
	dhcp6Server           *dhcp6.Server

	scratch   []byte
	searchMs  int64 // when to ask for the guest next; -1: not
	searches  int
	raMs      int64 // when to advertise next; -1: not
	raInitial int
	prefix    netip.Prefix
	lease6    netip.Addr // what DHCPv6 gives
	heard6    bool       // the guest has sent from a global IPv6 address
}

// How often the guest is searched for after its ring appeared: often at first,
// then not at all until something wants it.
const (
	searchEveryMs = 250
	maxSearches   = 40
)

func (s *services) init(cfg Config, l *link.Link) error {
	s.scratch = make([]byte, 0, 4096)
	s.searchMs, s.raMs = -1, -1
	s.noV4, s.noV6 = !cfg.IPv4.Enabled, !cfg.IPv6.Enabled
	s.noRA = cfg.NoRA || cfg.NoNDP
	s.prefix = cfg.IPv6.Prefix
	if cfg.IPv4.Enabled {
		a, err := arp.New(arp.Config{MAC: cfg.GatewayMAC, Addr: cfg.IPv4.Gateway, Guest: cfg.IPv4.Guest})
		if err != nil {
			return fmt.Errorf("ARP: %w", err)
		}
		s.arp, s.arpServer = a, a
		if !cfg.NoDHCP {
			d, err := dhcp4.New(cfg.dhcp4())
			if err != nil {
				return fmt.Errorf("DHCP: %w", err)
			}
			s.dhcp, s.dhcp4Server = d, d
		}
	}
	if cfg.IPv6.Enabled && !cfg.NoNDP {
		n, err := ndp.New(cfg.ndp(l))
		if err != nil {
			return fmt.Errorf("neighbour discovery: %w", err)
		}
		s.ndp, s.ndpServer = n, n
	}
	if cfg.IPv6.Enabled && !cfg.NoDHCP6 {
		d, err := dhcp6.New(cfg.dhcp6(l))
		if err != nil {
			return fmt.Errorf("DHCPv6: %w", err)
		}
		s.dhcp6, s.dhcp6Server, s.lease6 = d, d, cfg.IPv6.lease()
	}
	return nil
}

func (s *services) arpGuest() (header.MAC, header.Addr, bool) {
	if s.arpServer == nil {
		return header.MAC{}, header.Addr{}, false
	}
	return s.arpServer.Guest()
}

// nextDeadlineMs is when advance has something to do, or -1.
func (s *services) nextDeadlineMs() int64 {
	if s.searchMs >= 0 && (s.raMs < 0 || s.searchMs < s.raMs) {
		return s.searchMs
	}
	return s.raMs
}

// guestAttached begins to search for a guest whose ring has appeared: it may
// have been there before us and need not speak first.
func (s *services) guestAttached(l *link.Link) {
	s.searches = 0
	s.searchMs = l.NowMs
	if s.ndpServer != nil && !s.noRA {
		s.raInitial = 0
		s.raMs = l.NowMs
	}
}

// guestFound ends the search.
func (s *services) guestFound(l *link.Link) {
	s.searchMs = -1
	if l.Guest6 == (header.Addr{}) && s.prefix.IsValid() {
		l.Guest6 = slaac(s.prefix, l.GuestMAC)
	}
}

// advance does what is due.
func (s *services) advance(q *framequeue.Queue, l *link.Link) {
	if s.searchMs >= 0 && s.searchMs <= l.NowMs {
		s.searchMs = -1
		if s.findGuest(q, l); s.searches < maxSearches && q.Attached() {
			s.searches++
			s.searchMs = l.NowMs + searchEveryMs
		}
	}
	if s.raMs >= 0 && s.raMs <= l.NowMs {
		s.raMs = -1
		if q.Attached() {
			q.Push(header.Vnet{}, s.ndpServer.AppendRA(s.scratch[:0]))
			wait := ndp.MinIntervalSec + rand.IntN(ndp.MaxIntervalSec-ndp.MinIntervalSec)
			if s.raInitial++; s.raInitial < ndp.InitialCount {
				wait = min(wait, ndp.MaxInitialSec)
			}
			s.raMs = l.NowMs + int64(wait)*1000
		}
	}
}

// findGuest asks for the guest's hardware address, if it is not known.
func (s *services) findGuest(q *framequeue.Queue, l *link.Link) {
	if l.GuestMAC != header.Broadcast || !q.Attached() {
		return
	}
	if s.arpServer != nil {
		if frame, ok := s.arpServer.AppendRequest(s.scratch[:0]); ok {
			q.Push(header.Vnet{}, frame)
		}
	}
	if s.ndpServer != nil {
		if frame, ok := s.ndpServer.AppendSolicit(s.scratch[:0]); ok {
			q.Push(header.Vnet{}, frame)
		}
	}
}

// slaac is the address that a guest with this hardware address forms in prefix
// if it makes it in the classic way (RFC 4291 appendix A).
func slaac(prefix netip.Prefix, mac header.MAC) header.Addr {
	a := prefix.Masked().Addr().As16()
	ll := ndp.LinkLocal(mac).As16()
	copy(a[8:], ll[8:])
	return header.Addr(a)
}

// link returns what is known before the guest was heard.
func (c Config) link() link.Link {
	l := link.Link{
		OurMAC:   c.GatewayMAC,
		GuestMAC: header.Broadcast,
		MTU:      c.MTU,
		Guest4:   header.AddrFromNetip(c.IPv4.Guest),
		Guest6:   header.AddrFromNetip(c.IPv6.Guest),
		Gateway4: header.AddrFromNetip(c.IPv4.Gateway),
	}
	if !c.IPv4.Enabled {
		l.Guest4 = header.Addr{}
	}
	if c.IPv6.Enabled {
		l.OurLinkLocal = header.AddrFromNetip(c.routerAddr())
	} else {
		l.Guest6 = header.Addr{}
	}
	return l
}

// routerAddr is our link-local address.
func (c Config) routerAddr() netip.Addr {
	if c.IPv6.Gateway.IsValid() {
		return c.IPv6.Gateway
	}
	return ndp.LinkLocal(c.GatewayMAC)
}

func (c Config) mapping() addrmap.Config {
	m := addrmap.Config{HostLoopback: c.MapHostLoopback, HostGuest: c.MapGuest, DNS: c.DNSForward}
	if c.IPv4.Enabled {
		m.Own.V4, m.Guest.V4 = c.IPv4.Gateway, c.IPv4.Guest
	}
	if c.IPv6.Enabled {
		m.Own.V6, m.Guest.V6 = c.routerAddr(), c.IPv6.lease()
	}
	return m
}

func (c Config) dhcp4() dhcp4.Config {
	d := dhcp4.Config{
		MAC: c.GatewayMAC, Server: c.IPv4.Gateway, Router: c.IPv4.Gateway,
		Addr: netip.PrefixFrom(c.IPv4.Guest, c.IPv4.PrefixLen),
		DNS:  c.DNS, Search: c.Search, Hostname: c.Hostname,
		FQDN: c.FQDN, Boot: dhcp4.Boot(c.Boot),
	}
	if c.AnnounceMTU {
		d.MTU = uint16(c.MTU)
	}
	return d
}

func (c Config) ndp(l *link.Link) ndp.Config {
	n := ndp.Config{
		MAC: c.GatewayMAC, LinkLocal: l.OurLinkLocal.Netip(),
		Guest: c.IPv6.Guest, Prefix: c.IPv6.Prefix,
		DNS: c.DNS, Search: c.Search, NoRA: c.NoRA, NotDefault: c.IPv6.NoDefault,
	}
	// A guest that asks for an address gets the other settings with it.
	n.Managed = !c.NoDHCP6 && c.IPv6.lease().IsValid()
	n.Other = !c.NoDHCP6 && !n.Managed
	if c.AnnounceMTU && c.MTU >= 1280 {
		n.MTU = uint32(c.MTU)
	}
	return n
}
