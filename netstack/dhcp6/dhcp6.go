// Package dhcp6 is a DHCPv6 server with one address for one guest (RFC 8415,
// RFC 3646, RFC 4704, RFC 5970).
//
// It keeps no leases: the address belongs to the guest whatever identifier it
// shows, so a guest gets the same one after a reboot and from a restarted
// backend. A client that renews or rebinds with a server that has never seen it
// is served like any other, since the server's own identifier (DUID) is made
// from our hardware address and is the same after a restart. A declined or
// released address is given out again.
//
// Of the identity associations in a message the first IA_NA gets the address.
// Further ones, and temporary addresses, get the status NoAddrsAvail, prefix
// delegations NoPrefixAvail.
//
// A Server is not safe for concurrent use.
package dhcp6

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/searchlist"
)

// DefaultLease is the preferred lifetime of the address if Config gives none;
// the valid lifetime is twice as long. Clients renew after half of the
// preferred one.
const DefaultLease = 24 * time.Hour

// Bounds of Config.Lease: clients should not renew all the time, and twice the
// lease has to stay below 32 bits of seconds, all of which mean for ever (RFC
// 8415 section 7.7).
const (
	minLease = time.Minute
	MaxLease = (math.MaxUint32/2 - 1) * time.Second
)

// Config is what the guest is given.
type Config struct {
	MAC       header.MAC // our hardware address; the DUID is made from it
	LinkLocal netip.Addr // ours, source of replies

	Addr    netip.Addr    // the guest's; zero: none, only other settings are given
	Prefix  netip.Prefix  // of the link; zero: that of 64 bits around Addr
	DNS     []netip.Addr  // resolvers; those that an IPv6 guest cannot use are left out
	Search  []string      // search domains; cut if too long
	FQDN    string        // the guest's name (option 39); empty: not sent
	BootURL string        // boot file for network boot (option 59); empty: not sent
	Lease   time.Duration // a minute to MaxLease, whole seconds; 0: DefaultLease
}

// Counters count messages since New.
type Counters struct {
	Advertises uint64
	Leases     uint64 // replies that gave the address
	Others     uint64 // replies without it, to whatever message
	Releases   uint64
	Declines   uint64 // the guest found its address in use
	Ignored    uint64 // messages to us without an answer
}

// Server answers one guest.
type Server struct {
	mac       header.MAC
	linkLocal netip.Addr
	addr      netip.Addr
	prefix    netip.Prefix
	lease     time.Duration
	duid      []byte
	params    []dhcpv6.Option
	fqdn      string
	counters  Counters
	committed bool
}

// New checks c and returns a Server for it.
func New(c Config) (*Server, error) {
	if c.MAC.IsMulticast() || c.MAC == (header.MAC{}) {
		return nil, errors.New("dhcp6: our MAC address is not a station's")
	}
	c.LinkLocal = c.LinkLocal.WithZone("")
	if !c.LinkLocal.Is6() || !c.LinkLocal.IsLinkLocalUnicast() {
		return nil, fmt.Errorf("dhcp6: %v is not a link-local IPv6 address", c.LinkLocal)
	}
	if c.Addr = c.Addr.WithZone(""); c.Addr.IsValid() {
		if !isGlobal(c.Addr) {
			return nil, fmt.Errorf("dhcp6: guest address %v is not a station's global IPv6 address", c.Addr)
		}
		if !c.Prefix.IsValid() {
			c.Prefix = netip.PrefixFrom(c.Addr, 64)
		}
	}
	if a := c.Prefix.Addr(); c.Prefix.IsValid() && (!a.Is6() || a.Is4In6()) {
		return nil, fmt.Errorf("dhcp6: %v is not an IPv6 prefix", c.Prefix)
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Lease < minLease || c.Lease > MaxLease {
		return nil, fmt.Errorf("dhcp6: lease time %v is not between %v and %v", c.Lease, minLease, MaxLease)
	}
	if c.FQDN != "" {
		name := searchlist.Clean([]string{c.FQDN})
		if len(name) == 0 {
			return nil, fmt.Errorf("dhcp6: %q cannot be encoded as a domain name", c.FQDN)
		}
		c.FQDN = name[0]
	}
	if len(c.BootURL) > maxURL {
		return nil, fmt.Errorf("dhcp6: boot file URL of %d bytes, at most %d are possible", len(c.BootURL), maxURL)
	}
	duid := &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr(c.MAC[:])}
	s := &Server{
		mac: c.MAC, linkLocal: c.LinkLocal, addr: c.Addr, prefix: c.Prefix.Masked(),
		lease: c.Lease, duid: duid.ToBytes(), fqdn: c.FQDN,
	}
	s.setParams(&c)
	return s, nil
}

// Adopt goes on where old, which this Server replaces, has stopped.
func (s *Server) Adopt(old *Server) { s.counters, s.committed = old.counters, old.committed }

// Counters returns the counters as they are now.
func (s *Server) Counters() Counters { return s.counters }

// Committed reports whether the guest was given its address.
func (s *Server) Committed() bool { return s.committed }

// Handle looks at one frame from the guest, which starts with the Ethernet
// header. If the frame deserves an answer, Handle appends the whole answering
// frame to dst and reports true; otherwise it returns dst unchanged and false.
// It keeps no reference to frame.
func (s *Server) Handle(dst, frame []byte) (reply []byte, ok bool) {
	req, ok := s.parse(frame)
	if !ok {
		return dst, false
	}
	msg, ok := s.answer(&req)
	if !ok {
		s.counters.Ignored++
		return dst, false
	}
	return s.appendFrame(dst, &req, msg.ToBytes()), true
}

// isGlobal reports whether a can be the address of one IPv6 station on a larger
// network than its link.
func isGlobal(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && a.IsGlobalUnicast()
}
