// Package ndp is the router and the neighbour that an IPv6 guest finds on its
// link: it answers solicitations, advertises a prefix, resolvers and the MTU,
// and finds the guest (RFC 4861, RFC 4862, RFC 8106).
//
// The guest is the only station on its link, and behind us is every address it
// could talk to, so we answer for all of them with our one hardware address.
// What stays without an answer:
//
//   - a solicitation for an address of the guest's own side: the assigned one,
//     and those that the guest has used or announced (nested guests find each
//     other that way)
//   - duplicate address detection, which comes from the unspecified address
//     (RFC 4862 section 5.4.3), whatever it asks for: an answer would make the
//     guest give up an address
//   - what RFC 4861 sections 6.1.1, 7.1.1 and 7.1.2 tell to drop: hop limit
//     other than 255, wrong checksum or code, broken options; and anything
//     behind an extension header or in a fragment (RFC 6980)
//
// Lifetimes. A router advertisement is sent every few minutes, see
// MinIntervalSec, and renews everything. The default route and the resolvers,
// which are of use only with us, live for 65535 seconds, the longest router
// lifetime there is (RFC 8319 section 4): a guest that was paused, or whose
// backend was away for a while, keeps them. The prefix has the 30 and 7 days
// that RFC 4861 section 6.2.1 proposes, so that a guest loses an address in the
// end if the host has moved to another network.
//
// A Responder is not safe for concurrent use.
package ndp

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Time between unsolicited advertisements: a random number of seconds between
// the two (RFC 4861 section 6.2.1 and 6.2.4). The first InitialCount of them
// are at most MaxInitialSec apart.
const (
	MinIntervalSec = 200
	MaxIntervalSec = 600
	InitialCount   = 3
	MaxInitialSec  = 16
)

// minMTU is the smallest MTU of a link that carries IPv6 (RFC 8200 section 5).
const minMTU = 1280

var (
	allNodes    = netip.MustParseAddr("ff02::1")
	allNodesMAC = header.MAC{0x33, 0x33, 0, 0, 0, 1}
)

// Config says who we are, who the guest is and what is advertised.
type Config struct {
	MAC       header.MAC
	LinkLocal netip.Addr   // ours, in fe80::/10; if zero, made from MAC (RFC 4291 appendix A)
	Guest     netip.Addr   // address assigned to the guest; zero if none
	Prefix    netip.Prefix // for SLAAC, of 64 bits; zero: none is advertised
	MTU       uint32       // of the link, in bytes, at least 1280; 0: not advertised
	DNS       []netip.Addr // resolvers; IPv4 ones are left out
	Search    []string     // search domains; cut if too long
	Managed   bool         // M flag: addresses by DHCPv6
	Other     bool         // O flag: other settings by DHCPv6

	// NotDefault says that we lead nowhere: the router lifetime becomes 0, and
	// a guest with another way does not try this one (RFC 4861 section 4.2).
	NotDefault bool
	// NoRA answers no router solicitations. AppendRA still works.
	NoRA bool
}

// Responder does neighbour discovery for one guest.
type Responder struct {
	mac       header.MAC
	linkLocal netip.Addr
	assigned  netip.Addr
	noRA      bool
	ra        []byte // ICMPv6 message without a checksum
	neighbors neighbors
}

// New checks c and returns a Responder for it.
func New(c Config) (*Responder, error) {
	if c.MAC.IsMulticast() || c.MAC == (header.MAC{}) {
		return nil, errors.New("ndp: our MAC address is not a station's")
	}
	if !c.LinkLocal.IsValid() {
		c.LinkLocal = LinkLocal(c.MAC)
	}
	c.LinkLocal = c.LinkLocal.WithZone("")
	if !c.LinkLocal.Is6() || !c.LinkLocal.IsLinkLocalUnicast() {
		return nil, fmt.Errorf("ndp: %v is not a link-local IPv6 address", c.LinkLocal)
	}
	if c.Guest.IsValid() && (!c.Guest.Is6() || c.Guest.Is4In6()) {
		return nil, fmt.Errorf("ndp: %v is not an IPv6 address", c.Guest)
	}
	if c.Prefix.IsValid() {
		// RFC 4862 section 5.5.3 d: prefix and interface identifier make 128
		// bits, and the identifier on Ethernet has 64 (RFC 2464 section 4).
		if a := c.Prefix.Addr(); !a.Is6() || a.Is4In6() || c.Prefix.Bits() != 64 {
			return nil, fmt.Errorf("ndp: prefix %v is not an IPv6 prefix of 64 bits", c.Prefix)
		}
	}
	if c.MTU != 0 && c.MTU < minMTU {
		return nil, fmt.Errorf("ndp: MTU of %d bytes is below the %d of IPv6", c.MTU, minMTU)
	}
	ra, err := marshalRA(&c)
	if err != nil {
		return nil, err
	}
	return &Responder{
		mac: c.MAC, linkLocal: c.LinkLocal, assigned: c.Guest.WithZone(""), noRA: c.NoRA, ra: ra,
	}, nil
}

// LinkLocal returns the link-local address whose interface identifier is made
// from mac (modified EUI-64, RFC 4291 appendix A).
func LinkLocal(mac header.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}

// Handle looks at one frame from the guest, which starts with the Ethernet
// header, and learns from it. If the frame deserves an answer, Handle appends
// the whole answering frame to dst and reports true; otherwise it returns dst
// unchanged and false. It keeps no reference to frame.
func (r *Responder) Handle(dst, frame []byte) (reply []byte, ok bool) {
	m, ok := parse(frame)
	if !ok || m.srcMAC == r.mac || m.dstMAC != r.mac && !m.dstMAC.IsMulticast() {
		return dst, false
	}
	r.neighbors.learn(&m)
	switch m.kind {
	case typeRS:
		if r.noRA {
			return dst, false
		}
		if m.src.IsUnspecified() {
			return r.AppendRA(dst), true
		}
		// RFC 4861 section 6.2.6 lets a router answer the one who asked.
		return appendFrame(dst, r.address(m.src, m.replyMAC()), r.ra), true
	case typeNS:
		return r.answerNS(dst, &m)
	}
	return dst, false
}

// answerNS appends the advertisement that the solicitation m asks for, if it
// is for an address that we stand for.
func (r *Responder) answerNS(dst []byte, m *message) (reply []byte, ok bool) {
	t := m.target
	switch {
	case m.src.IsUnspecified(), t == m.src, t == r.assigned:
		return dst, false
	case t != r.linkLocal && r.neighbors.has(t):
		return dst, false
	}
	body, err := marshalNA(t, r.mac, t == r.linkLocal)
	if err != nil {
		return dst, false
	}
	return appendFrame(dst, r.address(m.src, m.replyMAC()), body), true
}

// AppendRA appends an unsolicited router advertisement to all nodes.
func (r *Responder) AppendRA(dst []byte) []byte {
	return appendFrame(dst, r.address(allNodes, allNodesMAC), r.ra)
}

// AppendSolicit appends a frame to dst that asks the guest to say where it is,
// for a backend that was restarted under a running guest. It asks for the
// global address last seen, else the assigned one, else the link-local one last
// seen. It reports false, and appends nothing, if there is none.
func (r *Responder) AppendSolicit(dst []byte) (frame []byte, ok bool) {
	target := r.neighbors.global
	if !target.IsValid() {
		target = r.assigned
	}
	if !target.IsValid() {
		target = r.neighbors.linkLocal
	}
	if !target.IsValid() {
		return dst, false
	}
	body, err := marshalNS(target, r.mac)
	if err != nil {
		return dst, false
	}
	// Solicited-node address (RFC 4291 section 2.7.1) and its Ethernet form
	// (RFC 2464 section 7).
	t := target.As16()
	group := netip.AddrFrom16([16]byte{
		0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: t[13], 14: t[14], 15: t[15],
	})
	mac := header.MAC{0x33, 0x33, 0xff, t[13], t[14], t[15]}
	return appendFrame(dst, r.address(group, mac), body), true
}

// Advertise replaces what router advertisements say by what c says. The
// addresses in c, and NoRA, do not count: they are as New had them.
func (r *Responder) Advertise(c Config) error {
	c.MAC, c.LinkLocal = r.mac, r.linkLocal
	ra, err := marshalRA(&c)
	if err != nil {
		return err
	}
	r.ra = ra
	return nil
}

// Probed returns the address above the link's scope for which the guest most
// recently did duplicate address detection: it is going to use it. ok is false
// if there was none.
func (r *Responder) Probed() (a netip.Addr, ok bool) {
	return r.neighbors.probed, r.neighbors.probed.IsValid()
}

// Assign notes that the guest was given a, for which no answer is given from
// now on.
func (r *Responder) Assign(a netip.Addr) { r.assigned = a.WithZone("") }

// LinkLocal returns our own link-local address, the guest's default router.
func (r *Responder) LinkLocal() netip.Addr { return r.linkLocal }

// Guest returns the guest's hardware address and its most recently used
// addresses, each of which may be invalid (the zero netip.Addr). ok is false
// until the guest has sent anything.
func (r *Responder) Guest() (mac header.MAC, linkLocal, global netip.Addr, ok bool) {
	n := &r.neighbors
	return n.mac, n.linkLocal, n.global, n.mac != header.MAC{}
}
