package addrmap

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

// FromGuest returns the host address to send p to, or why p is to be dropped.
// p must be as header.Parse left it; it is not changed, and its ports stay
// valid for the result. The first rule that applies:
//
//  1. TCP and UDP to ports 53 and 853 of a DNS forward → its resolver
//  2. the HostLoopback address → 127.0.0.1 or ::1
//  3. the HostGuest address → the guest's assigned address
//  4. everything else is kept
//
// Dropped are sources and destinations that may not appear on a wire, and TCP
// to anything but a single station (RFC 9293 section 3.9.2.3). Multicast and
// broadcast destinations of other protocols are left to the caller. The result
// may be of the other family than p only by rule 1.
func (m *Map) FromGuest(p *header.Packet) (host header.Addr, why Verdict) {
	if why := checkSource(&p.Src, p.V6); why != OK {
		return header.Addr{}, why
	}
	if why := checkDestination(&p.Dst, p.V6); why != OK {
		return header.Addr{}, why
	}
	if p.Proto == header.ProtoTCP && (p.Dst.IsMulticast() || p.Dst.IsLimitedBroadcast()) {
		return header.Addr{}, DstNotUnicast
	}
	f := &m.v4
	if p.V6 {
		f = &m.v6
	}
	if isDNS(p) {
		for i := range f.dns[:f.numDNS] {
			if p.Dst == f.dns[i].seen {
				return f.dns[i].host, OK
			}
		}
	}
	switch {
	case p.Dst == f.hostLoopback:
		return f.loopback, OK
	case p.Dst == f.hostGuest && f.guest != (header.Addr{}):
		return f.guest, OK
	}
	return p.Dst, OK
}

func isDNS(p *header.Packet) bool {
	return (p.DstPort == portDNS || p.DstPort == portDoT) &&
		(p.Proto == header.ProtoUDP || p.Proto == header.ProtoTCP) && !p.IsFragment()
}

// ToGuest returns the source address under which the guest is to see the host
// side's peer, for connections and datagrams that the host side begins. last is
// the guest address that will be the destination, which may differ from the
// assigned one; the zero Addr if unknown. The first rule that applies:
//
//  1. 127.0.0.1 or ::1 → the HostLoopback address, if there is one
//  2. the guest's assigned address, used by the host → HostGuest, if there is one
//  3. any other loopback address, the unspecified address, the guest's assigned
//     address, or last → our own address: the guest could not answer to them
//  4. everything else is kept
//
// The verdict is OK or NoSubstitute.
func (m *Map) ToGuest(peer, last *header.Addr) (seen header.Addr, why Verdict) {
	f := &m.v6
	if peer.Is4() {
		f = &m.v4
	}
	none := header.Addr{}
	switch {
	case *peer == f.loopback && f.hostLoopback != none:
		return f.hostLoopback, OK
	case *peer == f.guest && f.hostGuest != none:
		return f.hostGuest, OK
	case peer.IsMartian(), *peer == f.guest, *peer == *last:
		if f.own == none || f.own == *last {
			return none, NoSubstitute
		}
		return f.own, OK
	}
	return *peer, OK
}
