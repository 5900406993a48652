package dhcp4

import (
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/searchlist"
)

// Option codes, named as in RFC 2132 and its successors.
var (
	codeSubnetMask   = dhcpv4.OptionSubnetMask.Code()
	codeRouter       = dhcpv4.OptionRouter.Code()
	codeDNS          = dhcpv4.OptionDomainNameServer.Code()
	codeHostname     = dhcpv4.OptionHostName.Code()
	codeDomain       = dhcpv4.OptionDomainName.Code()
	codeClass        = dhcpv4.OptionClassIdentifier.Code()
	codeBootServer   = dhcpv4.OptionTFTPServerName.Code()
	codeBootFile     = dhcpv4.OptionBootfileName.Code()
	codeFQDN         = dhcpv4.OptionFQDN.Code()
	codeMTU          = dhcpv4.OptionInterfaceMTU.Code()
	codeBroadcast    = dhcpv4.OptionBroadcastAddress.Code()
	codeLease        = dhcpv4.OptionIPAddressLeaseTime.Code()
	codeMessageType  = dhcpv4.OptionDHCPMessageType.Code()
	codeServerID     = dhcpv4.OptionServerIdentifier.Code()
	codeMessage      = dhcpv4.OptionMessage.Code()
	codeRenew        = dhcpv4.OptionRenewTimeValue.Code()
	codeRebind       = dhcpv4.OptionRebindingTimeValue.Code()
	codeClientID     = dhcpv4.OptionClientIdentifier.Code()
	codeRapidCommit  = dhcpv4.OptionRapidCommit.Code()
	codeSearch       = dhcpv4.OptionDNSDomainSearchList.Code()
	codeStaticRoutes = dhcpv4.OptionClasslessStaticRoute.Code()
)

// maxDNS keeps the resolvers in one option.
const maxDNS = 63

// option is one parameter of the guest's configuration.
type option struct {
	code  uint8
	data  []byte
	asked bool // only for clients that ask for it
	lease bool // part of a lease: not for BOOTP and DHCPINFORM
}

// setParams encodes the parameters that are the same in every reply.
func (s *Server) setParams(c *Config) {
	mask := net.CIDRMask(c.Addr.Bits(), 32)
	s.lease = seconds(c.Lease)
	s.params = append(s.params, option{code: codeSubnetMask, data: dhcpv4.IPMask(mask).ToBytes()})
	if c.Router.IsValid() {
		if !c.Addr.Contains(c.Router) {
			// Has to come before the router option (RFC 3442).
			s.params = append(s.params, option{code: codeStaticRoutes, data: routesVia(c.Router)})
		}
		s.params = append(s.params, option{code: codeRouter, data: c.Router.AsSlice()})
	}
	var dns []byte
	for _, a := range c.DNS {
		if isStation(a) && len(dns) < 4*maxDNS {
			dns = append(dns, a.AsSlice()...)
		}
	}
	if len(dns) > 0 {
		s.params = append(s.params, option{code: codeDNS, data: dns})
	}
	if c.MTU != 0 {
		s.params = append(s.params, option{code: codeMTU, data: dhcpv4.Uint16(c.MTU).ToBytes()})
	}
	if c.Hostname != "" {
		s.params = append(s.params, option{code: codeHostname, data: []byte(c.Hostname)})
	}
	s.setNames(c)
	if s.bcast.IsValid() {
		s.params = append(s.params, option{code: codeBroadcast, data: s.bcast.AsSlice(), asked: true})
	}
	if c.Lease != InfiniteLease {
		// The defaults that clients take by themselves, RFC 2131 section 4.4.5.
		s.params = append(
			s.params,
			option{code: codeRenew, data: seconds(c.Lease / 2), asked: true, lease: true},
			option{code: codeRebind, data: seconds(c.Lease / 8 * 7), asked: true, lease: true},
		)
	}
}

func seconds(d time.Duration) []byte { return dhcpv4.Duration(d).ToBytes() }

// routesVia encodes a host route to router, directly on the link, and a default
// route through it (RFC 3442): the way to a router outside the subnet.
func routesVia(router netip.Addr) []byte {
	host := &dhcpv4.Route{
		Dest:   &net.IPNet{IP: router.AsSlice(), Mask: net.CIDRMask(32, 32)},
		Router: net.IPv4zero,
	}
	all := &dhcpv4.Route{
		Dest:   &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)},
		Router: router.AsSlice(),
	}
	return dhcpv4.Routes{host, all}.ToBytes()
}

// bytes returns the size of o in a message.
func (o *option) bytes() int { return 2 + len(o.data) }

// field is an option field under construction.
type field struct {
	buf  []byte
	room int // bytes left
}

// add appends option code, or nothing if there is not enough room. All values
// but the search list have at most 255 bytes.
func (f *field) add(code uint8, data []byte) {
	f.addPieces(code, [][]byte{data}, f.room)
}

// addPieces appends several instances of option code, which the client joins
// (RFC 3396), if they take at most room bytes. Otherwise it returns how many
// bytes are missing.
func (f *field) addPieces(code uint8, pieces [][]byte, room int) (missing int) {
	need := 0
	for _, p := range pieces {
		need += 2 + len(p)
	}
	if need > room {
		return need - room
	}
	for _, p := range pieces {
		f.buf = append(f.buf, code, byte(len(p)))
		f.buf = append(f.buf, p...)
	}
	f.room -= need
	return 0
}

// addSearch appends as many search domains as fit into room bytes.
func (f *field) addSearch(names []string, room int) {
	for limit := room; limit > 0; {
		data, ends := searchlist.Compress(names, limit)
		if len(data) == 0 {
			return
		}
		pieces := searchlist.Split(data, ends, math.MaxUint8)
		missing := f.addPieces(codeSearch, pieces, room)
		if missing == 0 {
			return
		}
		limit = len(data) - missing
	}
}
