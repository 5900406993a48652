package ndp

import (
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// ICMPv6 types (RFC 4861 section 4).
const (
	typeRS = 133
	typeNS = 135
	typeNA = 136
)

// Option types and sizes in bytes (RFC 4861 section 4.6.1).
const (
	optSourceLL = 1
	optTargetLL = 2
	lladdrLen   = 8
)

// message is a solicitation or advertisement of the guest that passed the
// checks of its type.
type message struct {
	srcMAC, dstMAC header.MAC
	src, dst       netip.Addr
	kind           uint8
	target         netip.Addr // of NS and NA
	lladdr         header.MAC // of the option that belongs to the type; zero if absent
}

// replyMAC is where an answer goes: to the address that the sender names, else
// to that of its frame.
func (m *message) replyMAC() header.MAC {
	if m.lladdr != (header.MAC{}) {
		return m.lladdr
	}
	return m.srcMAC
}

// parse reads a solicitation or neighbour advertisement and applies the checks
// of RFC 4861 sections 6.1.1, 7.1.1 and 7.1.2. Options are walked here, not by
// the library: one that it cannot decode would make it refuse a message whose
// unknown options must be ignored.
func parse(frame []byte) (m message, ok bool) {
	var p header.Packet
	if header.Parse(&p, frame[:min(len(frame), header.MaxHeaders)], len(frame)) != header.OK {
		return m, false
	}
	if !p.V6 || p.Proto != header.ProtoICMPv6 || p.L4 != header.EthLen+header.IPv6Len || p.TTL != 255 {
		return m, false
	}
	if p.SrcMAC.IsMulticast() || p.SrcMAC == (header.MAC{}) {
		return m, false
	}
	b := frame[p.L4:p.End]
	m = message{
		srcMAC: p.SrcMAC, dstMAC: p.DstMAC,
		src: netip.AddrFrom16(p.Src), dst: netip.AddrFrom16(p.Dst), kind: b[0],
	}
	sum := header.PseudoSum(&p.Src, &p.Dst, header.ProtoICMPv6, uint32(len(b)))
	if b[1] != 0 || header.Sum(b, sum) != 0xffff || !isUnicast(m.src) && !m.src.IsUnspecified() {
		return m, false
	}
	switch m.kind {
	case typeRS:
		return m, m.options(b[8:], optSourceLL)
	case typeNS, typeNA:
		if len(b) < 24 {
			return m, false
		}
		m.target = netip.AddrFrom16([16]byte(b[8:24]))
		if !isUnicast(m.target) {
			return m, false
		}
		if m.kind == typeNA {
			solicited := b[4]&0x40 != 0
			return m, m.options(b[24:], optTargetLL) && isUnicast(m.src) && !(solicited && m.dst.IsMulticast())
		}
		// A probe goes to the solicited-node address, nowhere else.
		if m.src.IsUnspecified() && !isSolicitedNode(m.dst) {
			return m, false
		}
		return m, m.options(b[24:], optSourceLL)
	}
	return m, false
}

// options walks the options in b and takes the hardware address out of the one
// of type want. It reports false if an option is broken, or if a sender without
// an address gives a source hardware address.
func (m *message) options(b []byte, want uint8) bool {
	for len(b) > 0 {
		if len(b) < 2 {
			return false
		}
		n := int(b[1]) * 8
		if n == 0 || n > len(b) {
			return false
		}
		if b[0] == optSourceLL && m.src.IsUnspecified() {
			return false
		}
		if b[0] == want && n == lladdrLen {
			if mac := header.MAC(b[2:8]); !mac.IsMulticast() {
				m.lladdr = mac
			}
		}
		b = b[n:]
	}
	return true
}

// isUnicast reports whether a can be the address of one IPv6 station.
func isUnicast(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.Is4In6()
}

// isSolicitedNode reports whether a is in ff02::1:ff00:0/104.
func isSolicitedNode(a netip.Addr) bool {
	b := a.As16()
	return [13]byte(b[:13]) == [13]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff}
}
