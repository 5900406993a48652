package synth

import (
	"encoding/binary"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// ARP packets for IPv4 over Ethernet (RFC 826).
const (
	arpBytes   = 28
	arpRequest = 1
	arpReply   = 2
)

// arp answers questions for our address, and learns the gateway's.
func (g *Guest) arp(b []byte) {
	if len(b) < arpBytes {
		g.Counters.Ignored++
		return
	}
	sender, target := binary.BigEndian.Uint32(b[14:]), binary.BigEndian.Uint32(b[24:])
	switch binary.BigEndian.Uint16(b[6:]) {
	case arpReply:
		if sender == word(g.cfg.Gateway) {
			g.frames.setGateway(b[8:14])
			g.gatewayKnown = true
		}
	case arpRequest:
		if target == g.frames.src {
			g.sendARP(arpReply, b[8:14], sender)
		}
	}
}

func (g *Guest) askGateway() { g.sendARP(arpRequest, nil, word(g.cfg.Gateway)) }

// sendARP sends a request (to nil: everyone) or a reply. A full ring loses it, as
// a full link would.
func (g *Guest) sendARP(op uint16, to []byte, target uint32) {
	b := g.tx.slot()
	if b == nil {
		return
	}
	clear(b[:header.VnetLen])
	eth := b[header.VnetLen:]
	copy(eth, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	copy(eth, to)
	copy(eth[6:], g.cfg.MAC[:])
	binary.BigEndian.PutUint16(eth[12:], header.EtherTypeARP)
	p := eth[header.EthLen:][:arpBytes]
	clear(p)
	copy(p, []byte{0, 1, 8, 0, 6, 4, 0, byte(op)})
	copy(p[8:], g.cfg.MAC[:])
	binary.BigEndian.PutUint32(p[14:], g.frames.src)
	copy(p[18:], to)
	binary.BigEndian.PutUint32(p[24:], target)
	_ = g.send(ipAt+arpBytes, 0, 0) // the slot says that there is room
}
