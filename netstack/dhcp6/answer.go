package dhcp6

import (
	"bytes"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// answer applies RFC 8415 section 18.3 to a message. It reports false if the
// message has to be discarded (section 16).
func (s *Server) answer(r *request) (msg *dhcpv6.Message, ok bool) {
	if !s.valid(r) {
		return nil, false
	}
	m := reply{kind: dhcpv6.MessageTypeReply}
	switch r.kind {
	case dhcpv6.MessageTypeSolicit:
		m.rapid = r.rapid && s.addr.IsValid()
		if !m.rapid {
			m.kind = dhcpv6.MessageTypeAdvertise
		}
		m.ias = s.assign(r, iana.StatusNoAddrsAvail)
	case dhcpv6.MessageTypeRequest:
		if r.unicast {
			m.status, m.bare = iana.StatusUseMulticast, true // section 18.4
			break
		}
		m.ias = s.assign(r, iana.StatusNoAddrsAvail)
	case dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind:
		if r.unicast {
			m.status, m.bare = iana.StatusUseMulticast, true
			break
		}
		m.ias = s.assign(r, iana.StatusNoBinding)
	case dhcpv6.MessageTypeConfirm:
		if m.status, ok = s.confirm(r); !ok {
			return nil, false
		}
		m.hasStatus, m.bare = true, true
	case dhcpv6.MessageTypeRelease:
		m.hasStatus, m.bare = true, true
		s.counters.Releases++
	case dhcpv6.MessageTypeDecline:
		m.hasStatus, m.bare = true, true
		s.counters.Declines++
	}
	s.count(&m)
	return s.message(r, &m), true
}

// valid applies the checks of RFC 8415 sections 16.2 to 16.12 and 18.4.
func (s *Server) valid(r *request) bool {
	ours := bytes.Equal(r.serverID, s.duid)
	switch r.kind {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRebind:
		return r.clientID != nil && r.serverID == nil && !r.unicast
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew,
		dhcpv6.MessageTypeDecline, dhcpv6.MessageTypeRelease:
		return r.clientID != nil && ours
	case dhcpv6.MessageTypeInformationRequest:
		return len(r.ias) == 0 && (r.serverID == nil || ours) && !r.unicast
	}
	return false
}

func (s *Server) count(m *reply) {
	given := false
	for _, ia := range m.ias {
		given = given || ia.given
	}
	switch {
	case m.kind == dhcpv6.MessageTypeAdvertise:
		s.counters.Advertises++
	case given:
		s.counters.Leases++
		s.committed = true
	default:
		s.counters.Others++
	}
}

// confirm says whether the addresses that the client believes to have belong on
// this link. Without any the message is discarded (RFC 8415 section 18.3.3).
func (s *Server) confirm(r *request) (status iana.StatusCode, ok bool) {
	for _, ia := range r.ias {
		for _, a := range ia.addrs {
			ok = true
			if !s.onLink(a) {
				status = iana.StatusNotOnLink
			}
		}
	}
	return status, ok
}

func (s *Server) onLink(a netip.Addr) bool { return a == s.addr || s.prefix.Contains(a) }

// grant is what one identity association is answered.
type grant struct {
	association
	given  bool // the address, and status does not count
	status iana.StatusCode
	expire []netip.Addr // addresses that the client has to stop using
}

// assign answers each association of r; refused is the status of those of
// addresses that get none.
func (s *Server) assign(r *request, refused iana.StatusCode) []grant {
	var out []grant
	taken := !s.addr.IsValid()
	for _, ia := range r.ias {
		g := grant{association: ia, status: refused}
		switch {
		case ia.kind == dhcpv6.OptionIAPD && refused == iana.StatusNoAddrsAvail:
			g.status = iana.StatusNoPrefixAvail
		case ia.kind != dhcpv6.OptionIANA || taken:
		case r.kind == dhcpv6.MessageTypeRequest && s.foreign(ia.addrs):
			g.status = iana.StatusNotOnLink // RFC 8415 section 18.3.2
			taken = true
		default:
			g.given, taken = true, true
			if r.kind != dhcpv6.MessageTypeSolicit { // there they are but wishes
				g.expire = others(ia.addrs, s.addr)
			}
		}
		out = append(out, g)
	}
	return out
}

// foreign reports whether one of addrs does not belong on this link.
func (s *Server) foreign(addrs []netip.Addr) bool {
	for _, a := range addrs {
		if !a.IsUnspecified() && !s.onLink(a) {
			return true
		}
	}
	return false
}

// others returns addrs without own and the unspecified address, which a client
// may name in a wish.
func others(addrs []netip.Addr, own netip.Addr) (out []netip.Addr) {
	for _, a := range addrs {
		if a != own && !a.IsUnspecified() {
			out = append(out, a)
		}
	}
	return out
}
