package dhcp6

import (
	"net"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/searchlist"
)

const (
	// maxReply keeps a reply in one packet of any IPv6 link (RFC 8200 section 5).
	maxReply   = 1280 - header.IPv6Len - header.UDPLen
	maxURL     = 256
	maxServers = 8
	hopLimit   = 64
)

// preferMost lets a client take our advertisement at once, instead of waiting
// for those of other servers (RFC 8415 section 18.2.1). There are none.
var preferMost = &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionPreference, OptionData: []byte{255}}

// Flags of the Client FQDN option (RFC 4704 section 4.1).
const (
	fqdnServerUpdates = 1 << 0 // S
	fqdnOverridden    = 1 << 1 // O
	fqdnNoUpdates     = 1 << 2 // N
)

// reply is what a message is answered, before it is encoded.
type reply struct {
	kind      dhcpv6.MessageType
	rapid     bool
	bare      bool // no settings besides
	hasStatus bool
	status    iana.StatusCode
	ias       []grant
}

// setParams encodes the settings that are the same in every reply; the order is
// that of their worth when they do not all fit.
func (s *Server) setParams(c *Config) {
	var dns []net.IP
	for _, a := range c.DNS {
		a = a.WithZone("")
		if isSource(a) && len(dns) < maxServers {
			dns = append(dns, a.AsSlice())
		}
	}
	if len(dns) > 0 {
		s.params = append(s.params, dhcpv6.OptDNS(dns...))
	}
	if c.BootURL != "" {
		s.params = append(s.params, dhcpv6.OptBootFileURL(c.BootURL))
	}
	if names := searchlist.Clean(c.Search); len(names) > 0 {
		s.params = append(s.params, searchOption(names))
	}
}

func searchOption(names []string) dhcpv6.Option {
	return dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: names})
}

// message builds the reply m to r.
func (s *Server) message(r *request, m *reply) *dhcpv6.Message {
	msg := &dhcpv6.Message{MessageType: m.kind, TransactionID: r.id}
	b := builder{msg: msg, room: maxReply - sizeHeader}
	if r.clientID != nil {
		b.add(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionClientID, OptionData: r.clientID})
	}
	b.add(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: s.duid})
	if m.kind == dhcpv6.MessageTypeAdvertise {
		b.add(preferMost)
	}
	if m.rapid {
		b.add(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
	}
	if m.hasStatus || m.status != iana.StatusSuccess {
		b.add(statusOption(m.status))
	}
	for i := range m.ias {
		b.add(s.iaOption(&m.ias[i]))
	}
	if m.bare {
		return msg
	}
	if s.fqdn != "" && (r.hasFQDN || r.wants(dhcpv6.OptionFQDN)) {
		b.add(s.fqdnOption(r))
	}
	for _, o := range s.params {
		if r.wants(o.Code()) {
			b.add(o)
		}
	}
	return msg
}

// builder adds options as long as they fit.
type builder struct {
	msg  *dhcpv6.Message
	room int // bytes left
}

// add adds o, or nothing if there is no room for it. Of a search list it adds
// what fits.
func (b *builder) add(o dhcpv6.Option) {
	n := sizeOption + len(o.ToBytes())
	if n > b.room && o.Code() == dhcpv6.OptionDomainSearchList {
		if o = b.cut(o); o == nil {
			return
		}
		n = sizeOption + len(o.ToBytes())
	}
	if n <= b.room {
		b.msg.AddOption(o)
		b.room -= n
	}
}

// cut returns the search list o with the names that fit, or nil.
func (b *builder) cut(o dhcpv6.Option) dhcpv6.Option {
	list := dhcpv6.MessageOptions{Options: dhcpv6.Options{o}}.DomainSearchList()
	n, used := 0, sizeOption
	for _, name := range list.Labels {
		if used += searchlist.WireBytes(name); used > b.room {
			break
		}
		n++
	}
	if n == 0 {
		return nil
	}
	return searchOption(list.Labels[:n])
}

func statusOption(code iana.StatusCode) dhcpv6.Option {
	return &dhcpv6.OptStatusCode{StatusCode: code, StatusMessage: code.String()}
}

// iaOption encodes the answer to one association. Addresses that the client has
// and should not have get lifetimes of 0 (RFC 8415 section 18.3.4).
func (s *Server) iaOption(g *grant) dhcpv6.Option {
	if !g.given {
		opts := dhcpv6.Options{statusOption(g.status)}
		switch g.kind {
		case dhcpv6.OptionIATA:
			return &dhcpv6.OptIATA{IaId: g.id, Options: dhcpv6.IdentityOptions{Options: opts}}
		case dhcpv6.OptionIAPD:
			return &dhcpv6.OptIAPD{IaId: g.id, Options: dhcpv6.PDOptions{Options: opts}}
		}
		return &dhcpv6.OptIANA{IaId: g.id, Options: dhcpv6.IdentityOptions{Options: opts}}
	}
	// T1 and T2 as section 21.4 recommends.
	ia := &dhcpv6.OptIANA{IaId: g.id, T1: s.lease / 2, T2: s.lease / 5 * 4}
	ia.Options.Add(&dhcpv6.OptIAAddress{
		IPv6Addr: s.addr.AsSlice(), PreferredLifetime: s.lease, ValidLifetime: 2 * s.lease,
	})
	for _, a := range g.expire {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: a.AsSlice()})
	}
	return ia
}

// fqdnOption gives the guest its name. We enter no names into any DNS, and say
// so; a client that asked for it is told that it was overridden.
func (s *Server) fqdnOption(r *request) dhcpv6.Option {
	o := &dhcpv6.OptFQDN{Flags: fqdnNoUpdates, DomainName: &rfc1035label.Labels{Labels: []string{s.fqdn}}}
	if r.fqdnFlags&fqdnServerUpdates != 0 {
		o.Flags |= fqdnOverridden
	}
	return o
}

// appendFrame appends the Ethernet frame that carries message to the client.
func (s *Server) appendFrame(dst []byte, r *request, message []byte) []byte {
	src, to := header.AddrFromNetip(s.linkLocal), header.AddrFromNetip(r.src)
	return appendUDP(dst, s.mac, r.srcMAC, &src, &to, message)
}

func appendUDP(dst []byte, srcMAC, dstMAC header.MAC, src, to *header.Addr, message []byte) []byte {
	udpLen := header.UDPLen + len(message)
	dst = append(dst, dstMAC[:]...)
	dst = append(dst, srcMAC[:]...)
	dst = be.AppendUint16(dst, header.EtherTypeIPv6)
	dst = append(dst, 0x60, 0, 0, 0)
	dst = be.AppendUint16(dst, uint16(udpLen))
	dst = append(dst, header.ProtoUDP, hopLimit)
	dst = append(dst, src[:]...)
	dst = append(dst, to[:]...)

	start := len(dst)
	dst = be.AppendUint16(dst, portServer)
	dst = be.AppendUint16(dst, portClient)
	dst = be.AppendUint16(dst, uint16(udpLen))
	dst = append(dst, 0, 0)
	dst = append(dst, message...)
	b := dst[start:]
	sum := header.Sum(b, header.PseudoSum(src, to, header.ProtoUDP, uint32(udpLen)))
	be.PutUint16(b[6:8], header.NonZero(^sum))
	return dst
}
