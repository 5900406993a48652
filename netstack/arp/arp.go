// Package arp answers the guest's ARP requests and finds the guest by ARP
// (RFC 826, RFC 1122 section 2.3.2, RFC 5227).
//
// The guest is the only station on its link, and behind us is every address it
// could talk to, so we answer for all of them with our one hardware address.
// What matters is which requests stay without an answer:
//
//   - A request for an address of the guest's own side: the assigned address,
//     or one that a station in the guest has used as its sender address. Nested
//     guests behind a bridge find each other that way, and an answer of ours
//     would take their traffic.
//   - An announcement (sender and target are the same, RFC 5227 section 2.3).
//   - A probe (sender 0.0.0.0, RFC 5227 section 2.1.1), because to the guest an
//     answer means that the address is taken. The one exception is a probe for
//     our own address: a guest that took it could reach nothing any more, and
//     RFC 5227 section 2.4 lets an owner defend what it has. No answer is ever
//     given for an assigned guest address, not even then.
//   - A request for an address that no station can have: 0/8, 127/8, multicast,
//     240/4.
//
// A Responder is not safe for concurrent use.
package arp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Layout of an ARP packet for Ethernet and IPv4 (RFC 826).
const (
	packetLen     = 28
	hwEthernet    = 1
	opRequest     = 1
	opReply       = 2
	minFrameBytes = 60 // IEEE 802.3 minimum without the checksum
)

var be = binary.BigEndian

// Config says who we are and who the guest is.
type Config struct {
	MAC   header.MAC // our hardware address, given in every answer
	Addr  netip.Addr // our own IPv4 address, usually the gateway's; zero if none
	Guest netip.Addr // address assigned to the guest; zero if none
}

// Responder answers ARP for one guest and remembers what it says of itself.
type Responder struct {
	mac      header.MAC
	addr     header.Addr // zero if none
	assigned header.Addr // zero if none
	stations stations
}

// New checks c and returns a Responder for it.
func New(c Config) (*Responder, error) {
	if c.MAC.IsMulticast() || c.MAC == (header.MAC{}) {
		return nil, errors.New("arp: our MAC address is not a station's")
	}
	for _, a := range []netip.Addr{c.Addr, c.Guest} {
		if a.IsValid() && !a.Unmap().Is4() {
			return nil, fmt.Errorf("arp: %v is not an IPv4 address", a)
		}
	}
	return &Responder{
		mac:      c.MAC,
		addr:     header.AddrFromNetip(c.Addr),
		assigned: header.AddrFromNetip(c.Guest),
	}, nil
}

// Handle looks at one frame from the guest, which starts with the Ethernet
// header, and learns from it. If the frame is a request that deserves an
// answer, Handle appends the whole answering frame to dst and reports true;
// otherwise it returns dst unchanged and false. It keeps no reference to frame.
func (r *Responder) Handle(dst, frame []byte) (reply []byte, ok bool) {
	p, ok := parse(frame)
	if !ok || p.senderMAC == r.mac {
		return dst, false
	}
	if p.dstMAC != r.mac && !p.dstMAC.IsMulticast() {
		return dst, false // a unicast poll of somebody else, RFC 1122 section 2.3.2.1
	}
	r.stations.learn(p.senderMAC, p.sender)
	if p.op != opRequest || !r.answers(&p) {
		return dst, false
	}
	return appendPacket(dst, &packet{
		dstMAC: p.senderMAC, op: opReply,
		senderMAC: r.mac, sender: p.target,
		targetMAC: p.senderMAC, target: p.sender,
	}), true
}

// answers reports whether the request p is for an address we stand for.
func (r *Responder) answers(p *packet) bool {
	if p.target == r.assigned || p.target == p.sender || !isStation(&p.target) {
		return false
	}
	if p.target == r.addr {
		return true
	}
	return !p.sender.IsUnspecified() && !r.stations.has(&p.target)
}

// AppendRequest appends a frame to dst that asks the guest to say where it is,
// for a backend that was restarted under a running guest. It asks for the
// address last seen, or the assigned one. It reports false, and appends
// nothing, if there is none, or if we have no address to ask with: a request
// from 0.0.0.0 would be a probe, and a sender address of the guest's own would
// be a conflict.
func (r *Responder) AppendRequest(dst []byte) (frame []byte, ok bool) {
	target := r.assigned
	if _, a, seen := r.stations.newest(); seen && a.Is4() {
		target = a
	}
	if r.addr == (header.Addr{}) || target == (header.Addr{}) || target == r.addr {
		return dst, false
	}
	return appendPacket(dst, &packet{
		dstMAC: header.Broadcast, op: opRequest,
		senderMAC: r.mac, sender: r.addr,
		target: target,
	}), true
}

// Guest returns the hardware address and the IPv4 address that the guest used
// most recently in an ARP packet. The address is the zero Addr as long as the
// guest has only probed; ok is false until it has sent anything.
func (r *Responder) Guest() (mac header.MAC, addr header.Addr, ok bool) {
	return r.stations.newest()
}

// isStation reports whether a can be the address of one station.
func isStation(a *header.Addr) bool {
	return !a.IsMartian() && a[12] < 224
}
