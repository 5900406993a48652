// Package dhcp4 is a DHCPv4 and BOOTP server with one address for one guest
// (RFC 2131, RFC 2132, RFC 951, RFC 1534).
//
// It keeps no leases: the address belongs to the guest whatever hardware
// address or client identifier it shows, so a guest gets the same address
// after a reboot, with a new network card, and from a restarted backend. For
// the same reason a declined or released address is offered again. Being the
// only server on the link, it is authoritative: a request for another address
// is answered with a DHCPNAK.
//
// A Server is not safe for concurrent use.
package dhcp4

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/searchlist"
)

// DefaultLease is the lease time if Config gives none. Clients renew after half
// of it; that is rare enough to cost nothing, and lets a guest learn that its
// address has changed.
const DefaultLease = 24 * time.Hour

// InfiniteLease never ends (RFC 2131 section 3.3).
const InfiniteLease = math.MaxUint32 * time.Second

// minLease keeps clients from renewing all the time.
const minLease = time.Minute

// Config is what the guest is given.
type Config struct {
	MAC    header.MAC // our hardware address
	Server netip.Addr // our IPv4 address: server identifier and source of replies

	Addr     netip.Prefix  // the guest's address with the length of its subnet
	Router   netip.Addr    // default gateway, possibly outside the subnet; zero: none
	DNS      []netip.Addr  // resolvers; IPv6 ones are left out
	Search   []string      // search domains; cut if too long
	Hostname string        // option 12, at most 255 bytes; empty: not sent
	MTU      uint16        // bytes, at least 68; 0: not sent
	FQDN     string        // the guest's full name, option 81; empty: not sent
	Boot     Boot          // for guests that boot from the network
	Lease    time.Duration // a minute to InfiniteLease, whole seconds; 0: DefaultLease
}

// Boot is what a guest that boots from the network is told: the fields 'file'
// and 'siaddr' for all, options 66 and 67 for those that ask, and the class of
// an HTTP boot client (UEFI 2.5 section 23.7.2.3.3) if File is an URL.
type Boot struct {
	File   string     // name or URL, at most 127 bytes; empty: nothing is told
	Server netip.Addr // where it is; zero: the server itself
}

// Counters count messages since New.
type Counters struct {
	Offers   uint64
	Acks     uint64 // including replies to DHCPINFORM
	Naks     uint64
	Bootp    uint64 // replies to BOOTP clients
	Releases uint64
	Declines uint64 // the guest found its address in use
	Ignored  uint64 // messages to us without an answer, other than these two
}

// Server answers one guest.
type Server struct {
	mac      header.MAC
	server   netip.Addr
	addr     netip.Addr
	bcast    netip.Addr // directed broadcast address of the subnet; zero if none
	lease    []byte     // lease time as in option 51
	params   []option   // in the order for clients that ask for none
	search   []string
	fqdn     string
	boot     Boot
	maxBytes int // largest reply that the link takes
	counters Counters
}

// New checks c and returns a Server for it.
func New(c Config) (*Server, error) {
	switch {
	case c.MAC.IsMulticast() || c.MAC == header.MAC{}:
		return nil, errors.New("dhcp4: our MAC address is not a station's")
	case !isStation(c.Server):
		return nil, fmt.Errorf("dhcp4: server address %v is not a station's IPv4 address", c.Server)
	case !c.Addr.IsValid() || !isStation(c.Addr.Addr()):
		return nil, fmt.Errorf("dhcp4: guest address %v is not a station's IPv4 address", c.Addr)
	case c.Addr.Bits() == 0:
		return nil, fmt.Errorf("dhcp4: guest address %v has no subnet", c.Addr)
	case c.Router.IsValid() && !isStation(c.Router):
		return nil, fmt.Errorf("dhcp4: router address %v is not a station's IPv4 address", c.Router)
	case len(c.Hostname) > math.MaxUint8:
		return nil, fmt.Errorf("dhcp4: host name of %d bytes, at most 255 are possible", len(c.Hostname))
	case c.FQDN != "" && len(searchlist.Clean([]string{c.FQDN})) == 0:
		return nil, fmt.Errorf("dhcp4: %q cannot be encoded as a domain name", c.FQDN)
	case len(c.Boot.File) > maxFile:
		return nil, fmt.Errorf("dhcp4: boot file name of %d bytes, at most %d are possible", len(c.Boot.File), maxFile)
	case c.Boot.Server.IsValid() && !isStation(c.Boot.Server):
		return nil, fmt.Errorf("dhcp4: boot server %v is not a station's IPv4 address", c.Boot.Server)
	case c.MTU != 0 && c.MTU < minMTU:
		return nil, fmt.Errorf("dhcp4: MTU of %d bytes is below the %d of RFC 2132", c.MTU, minMTU)
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Lease < minLease || c.Lease > InfiniteLease {
		return nil, fmt.Errorf("dhcp4: lease time %v is not between %v and %v", c.Lease, minLease, InfiniteLease)
	}
	if !c.Boot.Server.IsValid() {
		c.Boot.Server = c.Server
	}
	s := &Server{
		boot:     c.Boot,
		mac:      c.MAC,
		server:   c.Server,
		addr:     c.Addr.Addr(),
		bcast:    directedBroadcast(c.Addr),
		maxBytes: etherMTU - ipUDPLen,
	}
	if c.MTU != 0 && c.MTU < etherMTU {
		s.maxBytes = max(int(c.MTU), minDatagram) - ipUDPLen
	}
	s.setParams(&c)
	return s, nil
}

// Adopt goes on counting where old, which this Server replaces, has stopped.
func (s *Server) Adopt(old *Server) { s.counters = old.counters }

// Counters returns the counters as they are now.
func (s *Server) Counters() Counters { return s.counters }

// Handle looks at one frame from the guest, which starts with the Ethernet
// header. If the frame deserves an answer, Handle appends the whole answering
// frame to dst and reports true; otherwise it returns dst unchanged and false.
// It keeps no reference to frame.
func (s *Server) Handle(dst, frame []byte) (reply []byte, ok bool) {
	req, ok := s.parse(frame)
	if !ok {
		return dst, false
	}
	kind := s.decide(&req)
	switch kind {
	case silent:
		return dst, false
	case offer:
		s.counters.Offers++
	case nak:
		s.counters.Naks++
	case bootp:
		s.counters.Bootp++
	default:
		s.counters.Acks++
	}
	return s.appendReply(dst, &req, kind), true
}

// isStation reports whether a can be the address of one IPv4 station.
func isStation(a netip.Addr) bool {
	if !a.Is4() {
		return false
	}
	b := a.As4()
	return b[0] != 0 && b[0] != 127 && b[0] < 224
}

// directedBroadcast returns the broadcast address of p's subnet, or the zero
// address if the subnet is too small for one (RFC 3021).
func directedBroadcast(p netip.Prefix) netip.Addr {
	if p.Bits() > 30 {
		return netip.Addr{}
	}
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}
