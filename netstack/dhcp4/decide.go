package dhcp4

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// replyKind is what a client is answered.
type replyKind uint8

const (
	silent    replyKind = iota
	offer               // DHCPOFFER
	ack                 // DHCPACK with a lease
	rapidAck            // the same, at once after a DHCPDISCOVER (RFC 4039)
	informAck           // DHCPACK without a lease
	nak                 // DHCPNAK
	bootp               // BOOTREPLY to a client that knows no DHCP
)

// decide applies RFC 2131 section 4.3.
func (s *Server) decide(r *request) (kind replyKind) {
	if !r.msg.Options.Has(dhcpv4.OptionDHCPMessageType) {
		return bootp // RFC 1534 section 2
	}
	switch r.msg.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		if r.msg.Options.Has(dhcpv4.OptionRapidCommit) {
			return rapidAck
		}
		return offer
	case dhcpv4.MessageTypeRequest:
		kind = s.decideRequest(r)
	case dhcpv4.MessageTypeInform:
		if isStation(r.ciaddr) || isStation(r.src) {
			return informAck
		}
	case dhcpv4.MessageTypeDecline:
		if s.isOurs(r) {
			s.counters.Declines++
			return silent
		}
	case dhcpv4.MessageTypeRelease:
		if s.isOurs(r) {
			s.counters.Releases++
			return silent
		}
	}
	if kind == silent {
		s.counters.Ignored++
	}
	return kind
}

// decideRequest tells the four cases of RFC 2131 section 4.3.2 apart.
func (s *Server) decideRequest(r *request) replyKind {
	server, ok1 := r.addrOption(dhcpv4.OptionServerIdentifier)
	wanted, ok2 := r.addrOption(dhcpv4.OptionRequestedIPAddress)
	if !ok1 || !ok2 {
		return silent
	}
	if server.IsValid() && server != s.server {
		return silent // SELECTING, and the client has chosen another server
	}
	// RENEWING and REBINDING name the address in ciaddr, SELECTING and
	// INIT-REBOOT in the option. Some clients renew with both, or with a server
	// identifier; what they use is what counts.
	if isStation(r.ciaddr) {
		wanted = r.ciaddr
	}
	switch {
	case !wanted.IsValid():
		return silent // asks for nothing
	case wanted == s.addr:
		return ack
	}
	return nak
}

// isOurs reports whether the server identifier of r, which clients must give
// in DHCPDECLINE and DHCPRELEASE, is ours.
func (s *Server) isOurs(r *request) bool {
	id, ok := r.addrOption(dhcpv4.OptionServerIdentifier)
	return ok && id == s.server
}

// destination returns where the reply goes (RFC 2131 section 4.1, for BOOTP RFC
// 1542 section 4.1.2). broadcast applies to IP and to Ethernet.
func (s *Server) destination(r *request, kind replyKind) (ip netip.Addr, broadcast bool) {
	switch {
	case kind == nak:
		return limitedBroadcast, true
	case isStation(r.ciaddr):
		return r.ciaddr, false
	case kind == informAck:
		return r.src, false // no ciaddr; some clients leave it out
	case r.msg.IsBroadcast():
		return limitedBroadcast, true
	}
	return s.addr, false
}
