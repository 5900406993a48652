package dhcp4

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// UDP ports (RFC 2131 section 4.1).
const (
	portServer = 67
	portClient = 68
)

// Layout of a message (RFC 2131 section 2), in bytes.
const (
	sizeHeader  = 236 // up to and without the magic cookie
	offSname    = 44
	offFile     = 108
	maxMessage  = 4096 // largest one we look at; clients stay below 1500
	hwEthernet  = 1
	hwAddrBytes = 6
)

var cookie = [4]byte{99, 130, 83, 99} // RFC 1497

// request is a message of the client that is addressed to us.
type request struct {
	msg    *dhcpv4.DHCPv4
	chaddr header.MAC
	ciaddr netip.Addr // 0.0.0.0 if the client has none
	src    netip.Addr // source of the datagram
	bytes  int        // size of the message
}

// parse takes a client's message out of frame, if frame is one for us: UDP to
// port 67, to our address or broadcast, complete, from an Ethernet client, and
// not relayed. The UDP checksum is not looked at: a guest that leaves it to its
// network card has not computed it.
func (s *Server) parse(frame []byte) (req request, ok bool) {
	var p header.Packet
	if header.Parse(&p, frame[:min(len(frame), header.MaxHeaders)], len(frame)) != header.OK {
		return req, false
	}
	if p.EtherType != header.EtherTypeIPv4 || p.Proto != header.ProtoUDP || p.IsFragment() || p.DstPort != portServer {
		return req, false
	}
	if p.DstMAC != s.mac && !p.DstMAC.IsMulticast() {
		return req, false
	}
	dst := p.Dst.Netip()
	if !p.Dst.IsLimitedBroadcast() && dst != s.server && dst != s.bcast {
		return req, false
	}
	req.src = p.Src.Netip()
	if s.decode(&req, frame[p.Payload:p.End]) {
		return req, true
	}
	s.counters.Ignored++
	return req, false
}

// decode reads the message b. A BOOTP message may come without a magic cookie
// (RFC 951 section 3), options without an end mark (boot ROMs do that).
func (s *Server) decode(req *request, b []byte) bool {
	if len(b) < sizeHeader || len(b) > maxMessage {
		return false
	}
	m := make([]byte, 0, len(b)+len(cookie)+1)
	m = append(m, b[:sizeHeader]...)
	m = append(m, cookie[:]...)
	if opts := b[sizeHeader:]; len(opts) >= len(cookie) && [4]byte(opts) == cookie {
		m = append(m, opts[len(cookie):]...)
	}
	m = append(m, dhcpv4.OptionEnd.Code())
	msg, err := dhcpv4.FromBytes(m)
	if err != nil || !readOverload(msg, b) {
		return false
	}
	if msg.OpCode != dhcpv4.OpcodeBootRequest || msg.HWType != hwEthernet || len(msg.ClientHWAddr) != hwAddrBytes {
		return false
	}
	req.msg, req.bytes = msg, len(b)
	req.chaddr = header.MAC(msg.ClientHWAddr)
	req.ciaddr, _ = netip.AddrFromSlice(msg.ClientIPAddr)
	// A relay asks for guests on another link; there is no address for them.
	return !req.chaddr.IsMulticast() && req.chaddr != header.MAC{} && msg.GatewayIPAddr.IsUnspecified()
}

// readOverload adds the options that a client has put into the 'file' and
// 'sname' fields (RFC 2132 section 9.3).
func readOverload(msg *dhcpv4.DHCPv4, b []byte) bool {
	v := msg.Options.Get(dhcpv4.OptionOptionOverload)
	if len(v) != 1 {
		return len(v) == 0
	}
	if v[0]&1 != 0 && msg.Options.FromBytes(b[offFile:sizeHeader]) != nil {
		return false
	}
	return v[0]&2 == 0 || msg.Options.FromBytes(b[offSname:offFile]) == nil
}

// addrOption returns the address in option code; the zero Addr if the option is
// absent. It reports false if the option is malformed.
func (r *request) addrOption(code dhcpv4.OptionCode) (netip.Addr, bool) {
	if !r.msg.Options.Has(code) {
		return netip.Addr{}, true
	}
	v := r.msg.Options.Get(code)
	if len(v) != 4 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(v)), true
}

// maxBytes returns the largest message that the client takes.
func (r *request) maxBytes(kind replyKind) int {
	if kind == bootp {
		// A BOOTP client takes what it would send (RFC 951 section 3: 300
		// bytes; RFC 1542 section 2.1 allows more).
		return min(max(r.bytes, minMessage), minDatagram-ipUDPLen)
	}
	n, err := r.msg.MaxMessageSize()
	if err != nil {
		return minDatagram - ipUDPLen
	}
	// RFC 2132 section 9.10 does not say whether the IP and UDP headers count;
	// to count them is right for every reader.
	return max(int(n), minDatagram) - ipUDPLen
}
