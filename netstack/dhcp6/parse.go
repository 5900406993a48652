package dhcp6

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// UDP ports (RFC 8415 section 7.2).
const (
	portClient = 546
	portServer = 547
)

// allServers is All_DHCP_Relay_Agents_and_Servers (RFC 8415 section 7.1).
var allServers = netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 13: 1, 15: 2})

var be = binary.BigEndian

// Sizes in bytes.
const (
	sizeHeader   = 4   // message type and transaction identifier
	sizeOption   = 4   // code and length
	sizeIA       = 12  // IA_NA and IA_PD: identifier, T1, T2
	sizeIATA     = 4   // IA_TA: identifier
	sizeAddr     = 24  // IA Address: address and two lifetimes
	maxDUID      = 130 // RFC 8415 section 11.1: 2 bytes of type, 128 of value
	maxIAs       = 8   // of one message; clients have one or two
	maxIAAddrs   = 8   // of one association
	maxRequested = 128 // option codes that a client asks for
)

// association is an IA_NA, IA_TA or IA_PD of the client.
type association struct {
	kind  dhcpv6.OptionCode
	id    [4]byte
	addrs []netip.Addr // of an IA_NA and IA_TA, those that the client has or wants
}

// request is a message of the client that is addressed to us.
type request struct {
	kind    dhcpv6.MessageType
	id      dhcpv6.TransactionID
	srcMAC  header.MAC
	src     netip.Addr
	unicast bool // to our own address, not the group's

	clientID  []byte // nil if absent; aliases the frame, as does serverID
	serverID  []byte // nil if absent
	ias       []association
	asked     []dhcpv6.OptionCode
	asks      bool // asked counts
	rapid     bool
	hasFQDN   bool
	fqdnFlags uint8
}

// parse takes a client's message out of frame, if frame is one for us: UDP to
// port 547, to the group of all servers or to our address, complete and well
// formed. Options are walked here, not by the library: one that it cannot decode
// would make it refuse a message that is fine without it. The UDP checksum is
// not looked at: a guest that leaves it to its network card has not computed it.
func (s *Server) parse(frame []byte) (req request, ok bool) {
	var p header.Packet
	if header.Parse(&p, frame[:min(len(frame), header.MaxHeaders)], len(frame)) != header.OK {
		return req, false
	}
	if !p.V6 || p.Proto != header.ProtoUDP || p.IsFragment() || p.DstPort != portServer {
		return req, false
	}
	if p.DstMAC != s.mac && !p.DstMAC.IsMulticast() || p.SrcMAC.IsMulticast() {
		return req, false
	}
	dst := p.Dst.Netip()
	if dst != allServers && dst != s.linkLocal {
		return req, false
	}
	req.srcMAC, req.src, req.unicast = p.SrcMAC, p.Src.Netip(), dst != allServers
	if isSource(req.src) && req.decode(frame[p.Payload:p.End]) {
		return req, true
	}
	s.counters.Ignored++
	return req, false
}

// isSource reports whether a reply can go to a.
func isSource(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast()
}

// decode reads the message b.
func (r *request) decode(b []byte) bool {
	if len(b) < sizeHeader {
		return false
	}
	r.kind = dhcpv6.MessageType(b[0])
	r.id = dhcpv6.TransactionID(b[1:4])
	return walk(b[sizeHeader:], r.option)
}

// walk calls f for each option in b. It reports false if an option is longer
// than what is left of b, or if f does.
func walk(b []byte, f func(code dhcpv6.OptionCode, data []byte) bool) bool {
	for len(b) > 0 {
		if len(b) < sizeOption {
			return false
		}
		code, n := dhcpv6.OptionCode(be.Uint16(b)), int(be.Uint16(b[2:]))
		if b = b[sizeOption:]; n > len(b) || !f(code, b[:n:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// option notes what one option says. It reports false if it is malformed.
func (r *request) option(code dhcpv6.OptionCode, data []byte) bool {
	switch code {
	case dhcpv6.OptionClientID:
		r.clientID = data
		return len(data) > 2 && len(data) <= maxDUID
	case dhcpv6.OptionServerID:
		r.serverID = data
		return len(data) > 2 && len(data) <= maxDUID
	case dhcpv6.OptionIANA, dhcpv6.OptionIATA, dhcpv6.OptionIAPD:
		return r.association(code, data)
	case dhcpv6.OptionORO:
		r.asks = true
		for len(data) >= 2 && len(r.asked) < maxRequested {
			r.asked = append(r.asked, dhcpv6.OptionCode(be.Uint16(data)))
			data = data[2:]
		}
	case dhcpv6.OptionRapidCommit:
		r.rapid = true
	case dhcpv6.OptionFQDN:
		if r.hasFQDN = len(data) > 0; r.hasFQDN {
			r.fqdnFlags = data[0]
		}
	}
	return true
}

// association notes an identity association. What is beyond a sensible number
// of them is left out.
func (r *request) association(code dhcpv6.OptionCode, data []byte) bool {
	head := sizeIA
	if code == dhcpv6.OptionIATA {
		head = sizeIATA
	}
	if len(data) < head {
		return false
	}
	ia := association{kind: code, id: [4]byte(data)}
	ok := walk(data[head:], func(code dhcpv6.OptionCode, data []byte) bool {
		if code != dhcpv6.OptionIAAddr {
			return true
		}
		if len(data) < sizeAddr {
			return false
		}
		if len(ia.addrs) < maxIAAddrs {
			ia.addrs = append(ia.addrs, netip.AddrFrom16([16]byte(data)))
		}
		return true
	})
	if ok && len(r.ias) < maxIAs {
		r.ias = append(r.ias, ia)
	}
	return ok
}

// wants reports whether the client may be sent option code: it asks for it, or
// asks for nothing in particular.
func (r *request) wants(code dhcpv6.OptionCode) bool {
	return !r.asks || slices.Contains(r.asked, code)
}
