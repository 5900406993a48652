package netstack

import (
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/dhcp4"
	"github.com/vhost-net-go/vhost-net-go/netstack/dhcp6"
)

// Live is the part of Config that may change while a guest runs, because the
// host's network has changed. The guest's own addresses are not part of it. The
// fields are those of Config.
type Live struct {
	DNS        []netip.Addr
	Search     []string
	DNSForward []addrmap.Forward
	OwnGateway bool // of IPv4
	NoDefault  bool // of IPv6
}

// Follow puts l in force: new flows use the new resolvers; datagram and ping
// flows whose sockets would send from another address now begin anew with the
// guest's next packet, while those of TCP are left to the host's kernel; the
// guest is told by a router advertisement at once, and by DHCP when it asks.
// Parked. On an error nothing has changed.
func (w *Worker) Follow(l Live) error {
	cfg := w.cfg.with(l)
	m, err := addrmap.New(cfg.mapping())
	if err != nil {
		return fmt.Errorf("address mapping: %w", err)
	}
	if err := w.services.follow(cfg, w); err != nil {
		return err
	}
	*w.amap = *m
	w.cfg = cfg
	if w.protos.icmp != nil {
		w.protos.icmp.SetOwnGateway(l.OwnGateway)
		w.protos.icmp.Rehome()
	}
	if w.protos.udp != nil {
		w.protos.udp.Rehome()
	}
	return nil
}

// with returns c with l in force.
func (c Config) with(l Live) Config {
	c.DNS, c.Search, c.DNSForward = l.DNS, l.Search, l.DNSForward
	c.IPv4.OwnGateway, c.IPv6.NoDefault = l.OwnGateway, l.NoDefault
	return c
}

// follow makes the services anew, or none of them if one cannot be made.
func (s *services) follow(cfg Config, w *Worker) error {
	var (
		d4  *dhcp4.Server
		d6  *dhcp6.Server
		err error
	)
	if s.dhcp4Server != nil {
		if d4, err = dhcp4.New(cfg.dhcp4()); err != nil {
			return fmt.Errorf("DHCP: %w", err)
		}
	}
	if s.dhcp6Server != nil {
		if d6, err = dhcp6.New(cfg.dhcp6(&w.link)); err != nil {
			return fmt.Errorf("DHCPv6: %w", err)
		}
	}
	if s.ndpServer != nil {
		if err := s.ndpServer.Advertise(cfg.ndp(&w.link)); err != nil {
			return err
		}
		if s.raMs >= 0 {
			s.raInitial, s.raMs = 0, w.link.NowMs
		}
	}
	if d4 != nil {
		d4.Adopt(s.dhcp4Server)
		s.dhcp, s.dhcp4Server = d4, d4
	}
	if d6 != nil {
		d6.Adopt(s.dhcp6Server)
		s.dhcp6, s.dhcp6Server = d6, d6
	}
	return nil
}
