package hostconf

import (
	"net/netip"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"
)

// address picks the host's address for a hop: the route's preferred source if
// it has one, on whatever interface that is, or else the best of the hop's
// interface. peer is the far end of a point-to-point address.
func (t tables) address(af uint8, h hop) (addr netip.Prefix, peer netip.Addr) {
	best := 0
	for _, m := range t.addrs {
		if m.Family != af || m.Attributes == nil {
			continue
		}
		local, far := ends(m)
		if h.source.IsValid() && local == h.source {
			return netip.PrefixFrom(local, int(m.PrefixLength)), far
		}
		if score := rank(m, local); m.Index == h.index && score > best {
			best = score
			addr, peer = netip.PrefixFrom(local, int(m.PrefixLength)), far
		}
	}
	return addr, peer
}

// ends returns the local address and, if the interface is point-to-point, the
// peer's. IFA_ADDRESS is the peer's where it differs from IFA_LOCAL
// (linux/if_addr.h).
func ends(m rtnetlink.AddressMessage) (local, peer netip.Addr) {
	a, l := toAddr(m.Attributes.Address), toAddr(m.Attributes.Local)
	if !l.IsValid() || l == a {
		return a, netip.Addr{}
	}
	return l, a
}

// rank orders addresses: 0 is unusable; of equals the first is taken.
func rank(m rtnetlink.AddressMessage, local netip.Addr) int {
	flags := m.Attributes.Flags | uint32(m.Flags)
	switch {
	case !local.IsValid() || local.IsLoopback() || local.IsUnspecified():
		return 0
	case local.Is6() && local.IsLinkLocalUnicast():
		return 0
	case flags&unix.IFA_F_DADFAILED != 0:
		return 0
	case flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0:
		return 1
	case flags&unix.IFA_F_DEPRECATED != 0:
		return 2
	case local.Is6() && flags&unix.IFA_F_TEMPORARY != 0:
		return 3 // it will be gone soon (RFC 8981)
	case m.Scope != unix.RT_SCOPE_UNIVERSE:
		return 4
	}
	return 5
}
