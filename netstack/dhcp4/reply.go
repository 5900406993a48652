package dhcp4

import (
	"encoding/binary"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Sizes in bytes.
const (
	minMessage  = 300 // RFC 951 section 3; some clients drop shorter ones
	minDatagram = 576 // what every client takes, RFC 2131 section 2
	minMTU      = 68  // RFC 2132 section 5.1
	etherMTU    = 1500
	ipUDPLen    = header.IPv4Len + header.UDPLen
	replyTTL    = 64
)

var (
	be               = binary.BigEndian
	limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
)

// wrongAddress explains a DHCPNAK (option 56).
const wrongAddress = "this address is not yours"

// appendReply appends the frame with the reply of the given kind to r.
func (s *Server) appendReply(dst []byte, r *request, kind replyKind) []byte {
	ip, broadcast := s.destination(r, kind)
	mac := r.chaddr
	if broadcast {
		mac = header.Broadcast
	}
	return s.appendFrame(dst, mac, ip, s.message(r, kind))
}

// message builds the reply's fixed part as RFC 2131 table 3 says, and its
// options. The library keeps options in a map and writes them sorted by code,
// so the order is made here.
func (s *Server) message(r *request, kind replyKind) []byte {
	m := dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootReply,
		HWType:        r.msg.HWType,
		TransactionID: r.msg.TransactionID,
		Flags:         r.msg.Flags,
		ClientHWAddr:  r.msg.ClientHWAddr,
	}
	switch kind {
	case offer:
		m.YourIPAddr = s.addr.AsSlice()
	case ack, rapidAck:
		m.YourIPAddr = s.addr.AsSlice()
		m.ClientIPAddr = r.msg.ClientIPAddr
	case informAck:
		m.ClientIPAddr = r.msg.ClientIPAddr
	case bootp:
		m.ClientIPAddr = r.msg.ClientIPAddr
		if !isStation(r.ciaddr) {
			m.YourIPAddr = s.addr.AsSlice()
		}
	}
	if kind != nak {
		s.setBoot(&m)
	}
	limit := min(r.maxBytes(kind), s.maxBytes)
	f := field{buf: m.ToBytes()[:sizeHeader+len(cookie)]}
	f.room = limit - len(f.buf) - 1 // the end mark
	s.addControl(&f, r, kind)
	if kind != nak {
		s.addClass(&f, r)
		s.addParams(&f, r, kind)
	}
	b := append(f.buf, dhcpv4.OptionEnd.Code())
	for len(b) < minMessage {
		b = append(b, dhcpv4.OptionPad.Code())
	}
	return b
}

// addControl appends the options that steer the exchange. The message type
// comes first, which simple clients rely on. BOOTP clients get none of them
// (RFC 2132 section 9).
func (s *Server) addControl(f *field, r *request, kind replyKind) {
	if kind == bootp {
		return
	}
	t := dhcpv4.MessageTypeAck
	switch kind {
	case offer:
		t = dhcpv4.MessageTypeOffer
	case nak:
		t = dhcpv4.MessageTypeNak
	}
	f.add(codeMessageType, t.ToBytes())
	f.add(codeServerID, s.server.AsSlice())
	if id := r.msg.Options.Get(dhcpv4.OptionClientIdentifier); len(id) > 0 && len(id) <= maxClientID {
		f.add(codeClientID, id) // RFC 6842 section 3
	}
	switch kind {
	case offer, ack:
		f.add(codeLease, s.lease)
	case rapidAck:
		f.add(codeLease, s.lease)
		f.add(codeRapidCommit, nil)
	case nak:
		f.add(codeMessage, []byte(wrongAddress))
	}
}

// maxClientID leaves room for the parameters; identifiers are 7 to 19 bytes
// long in practice (RFC 4361).
const maxClientID = 64

// addParams appends the guest's parameters in the order of wanted. One that does
// not fit is left out; the search list gets what the others leave.
func (s *Server) addParams(f *field, r *request, kind replyKind) {
	list := s.wanted(r, kind)
	others := 0
	for _, o := range list {
		if o.code != codeSearch {
			others += o.bytes()
		}
	}
	for _, o := range list {
		if o.code == codeSearch {
			f.addSearch(s.search, f.room-others)
			continue
		}
		if o.code == codeFQDN {
			f.addPieces(o.code, chop(s.fqdnData(r)), f.room)
		} else {
			f.add(o.code, o.data)
		}
		others -= o.bytes()
	}
}

// wanted returns the parameters for the client: first those that it asks for,
// in its order (RFC 2132 section 9.8), then the others. The subnet mask comes
// before the router in any case (RFC 2132 section 3.3).
func (s *Server) wanted(r *request, kind replyKind) []*option {
	var (
		out  []*option
		done [256]bool
	)
	lease := kind != bootp && kind != informAck
	add := func(code uint8, asked bool) {
		for i := range s.params {
			o := &s.params[i]
			if o.code == code && !done[code] && (asked || !o.asked) && (lease || !o.lease) {
				out = append(out, o)
				done[code] = true
			}
		}
	}
	for _, code := range r.msg.Options.Get(dhcpv4.OptionParameterRequestList) {
		if done[code] {
			continue
		}
		if code == codeRouter {
			add(codeSubnetMask, true)
		}
		add(code, true)
		done[code] = true
	}
	for i := range s.params {
		add(s.params[i].code, false)
	}
	return out
}

// appendFrame appends the Ethernet frame that carries message to the client.
func (s *Server) appendFrame(dst []byte, mac header.MAC, ip netip.Addr, message []byte) []byte {
	src, to := header.AddrFromNetip(s.server), header.AddrFromNetip(ip)
	udpLen := header.UDPLen + len(message)

	dst = append(dst, mac[:]...)
	dst = append(dst, s.mac[:]...)
	dst = be.AppendUint16(dst, header.EtherTypeIPv4)

	start := len(dst)
	dst = append(dst, 0x45, 0)
	dst = be.AppendUint16(dst, uint16(header.IPv4Len+udpLen))
	dst = append(dst, 0, 0, 0x40, 0) // identification 0, don't fragment (RFC 6864)
	dst = append(dst, replyTTL, header.ProtoUDP, 0, 0)
	dst = append(dst, src[12:]...)
	dst = append(dst, to[12:]...)
	b := dst[start:]
	be.PutUint16(b[10:12], ^header.Sum(b, 0))

	start = len(dst)
	dst = be.AppendUint16(dst, portServer)
	dst = be.AppendUint16(dst, portClient)
	dst = be.AppendUint16(dst, uint16(udpLen))
	dst = append(dst, 0, 0)
	dst = append(dst, message...)
	b = dst[start:]
	sum := header.Sum(b, header.PseudoSum(&src, &to, header.ProtoUDP, uint32(udpLen)))
	be.PutUint16(b[6:8], header.NonZero(^sum))
	return dst
}
