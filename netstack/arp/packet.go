package arp

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

// packet is one ARP packet with the Ethernet destination of its frame.
type packet struct {
	dstMAC    header.MAC
	op        uint16
	senderMAC header.MAC
	sender    header.Addr // 0.0.0.0 in a probe
	targetMAC header.MAC
	target    header.Addr
}

// parse reads an ARP packet for Ethernet and IPv4 out of frame. Padding behind
// it is allowed. A sender that cannot be a station is refused, except for the
// 0.0.0.0 of a probe.
func parse(frame []byte) (p packet, ok bool) {
	if len(frame) < header.EthLen+packetLen || be.Uint16(frame[12:14]) != header.EtherTypeARP {
		return p, false
	}
	b := frame[header.EthLen:]
	if be.Uint16(b[0:2]) != hwEthernet || be.Uint16(b[2:4]) != header.EtherTypeIPv4 || b[4] != 6 || b[5] != 4 {
		return p, false
	}
	p = packet{
		dstMAC:    header.MAC(frame[0:6]),
		op:        be.Uint16(b[6:8]),
		senderMAC: header.MAC(b[8:14]),
		sender:    header.AddrFrom4([4]byte(b[14:18])),
		targetMAC: header.MAC(b[18:24]),
		target:    header.AddrFrom4([4]byte(b[24:28])),
	}
	if p.senderMAC.IsMulticast() || p.senderMAC == (header.MAC{}) {
		return p, false
	}
	return p, p.sender.IsUnspecified() || isStation(&p.sender)
}

// appendPacket appends the frame that carries p, padded to the Ethernet
// minimum: some drivers drop shorter ones.
func appendPacket(dst []byte, p *packet) []byte {
	start := len(dst)
	dst = append(dst, p.dstMAC[:]...)
	dst = append(dst, p.senderMAC[:]...)
	dst = be.AppendUint16(dst, header.EtherTypeARP)
	dst = be.AppendUint16(dst, hwEthernet)
	dst = be.AppendUint16(dst, header.EtherTypeIPv4)
	dst = append(dst, 6, 4)
	dst = be.AppendUint16(dst, p.op)
	dst = append(dst, p.senderMAC[:]...)
	dst = append(dst, p.sender[12:]...)
	dst = append(dst, p.targetMAC[:]...)
	dst = append(dst, p.target[12:]...)
	var pad [minFrameBytes]byte
	return append(dst, pad[len(dst)-start:]...)
}
