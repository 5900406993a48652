package ndp

import (
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// maxClaimed bounds what a guest can make us remember. A guest has a link-local
// address and a few global ones, of which the temporary ones (RFC 8981) change
// daily.
const maxClaimed = 16

// neighbors is what the guest has told about itself.
type neighbors struct {
	mac       header.MAC // sender of the most recent message
	linkLocal netip.Addr // most recently used
	global    netip.Addr // most recently used, of any scope above the link
	probed    netip.Addr // the same, by duplicate address detection

	claimed [maxClaimed]netip.Addr // most recent first
	n       int
}

// learn notes the addresses that m shows to be the guest's: its source, the
// target of an advertisement, and the target of duplicate address detection.
// The last is not in use yet, but soon will be, and nobody announces it then.
func (n *neighbors) learn(m *message) {
	n.mac = m.srcMAC
	if m.src.IsUnspecified() {
		if m.kind == typeNS {
			if !m.target.IsLinkLocalUnicast() {
				n.probed = m.target
			}
			n.claim(m.target)
		}
		return
	}
	n.use(m.src)
	if m.kind == typeNA {
		n.mac = m.replyMAC()
		n.use(m.target)
	}
}

// use notes an address that the guest is using.
func (n *neighbors) use(a netip.Addr) {
	if a.IsLinkLocalUnicast() {
		n.linkLocal = a
	} else {
		n.global = a
	}
	n.claim(a)
}

// claim moves a to the front of the list; the oldest entry makes room.
func (n *neighbors) claim(a netip.Addr) {
	i := 0
	for i < n.n && n.claimed[i] != a {
		i++
	}
	if i == n.n {
		if n.n < maxClaimed {
			n.n++
		} else {
			i = maxClaimed - 1
		}
	}
	copy(n.claimed[1:i+1], n.claimed[:i])
	n.claimed[0] = a
}

func (n *neighbors) has(a netip.Addr) bool {
	for _, c := range n.claimed[:n.n] {
		if c == a {
			return true
		}
	}
	return false
}
