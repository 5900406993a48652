package hostconf

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"
)

// tables is one reading of the kernel's tables, in the kernel's order.
type tables struct {
	links  []rtnetlink.LinkMessage
	addrs  []rtnetlink.AddressMessage
	routes []rtnetlink.RouteMessage
}

// hop is where a route leads.
type hop struct {
	index   uint32
	gateway netip.Addr
	source  netip.Addr // preferred source, if the route has one
	isDef   bool
}

func (t tables) linkNamed(name string) (rtnetlink.LinkMessage, bool) {
	for _, l := range t.links {
		if l.Attributes != nil && l.Attributes.Name == name {
			return l, true
		}
	}
	return rtnetlink.LinkMessage{}, false
}

func (t tables) link(index uint32) (rtnetlink.LinkMessage, bool) {
	for _, l := range t.links {
		if l.Index == index && l.Attributes != nil {
			return l, true
		}
	}
	return rtnetlink.LinkMessage{}, false
}

// family describes one address family on the template interface: the named
// one, or else the first with a default route, or else the first that is not
// loopback and has any route.
func (t tables) family(af uint8, name string) Family {
	h, ok := t.template(af, name)
	if !ok {
		return Family{}
	}
	l, ok := t.link(h.index)
	if !ok {
		return Family{}
	}
	f := Family{
		Interface:    l.Attributes.Name,
		MTU:          int(l.Attributes.MTU),
		DefaultRoute: h.isDef,
		Gateway:      h.gateway,
	}
	f.Addr, f.Peer = t.address(af, h)
	return f
}

func (t tables) template(af uint8, name string) (hop, bool) {
	var only uint32
	if name != "" {
		l, ok := t.linkNamed(name)
		if !ok {
			return hop{}, false
		}
		only = l.Index
	}
	for _, r := range t.defaultRoutes(af) {
		if h, ok := t.bestHop(r, only); ok {
			h.isDef = true
			return h, true
		}
	}
	if only != 0 {
		return hop{index: only}, true
	}
	for _, r := range t.routes {
		if !mainUnicast(r, af) || linkLocalDst(r) {
			continue
		}
		if h, ok := t.bestHop(r, 0); ok {
			return hop{index: h.index, source: h.source}, true
		}
	}
	return hop{}, false
}

// defaultRoutes returns them by rising metric; those whose link is down last.
func (t tables) defaultRoutes(af uint8) []rtnetlink.RouteMessage {
	var out []rtnetlink.RouteMessage
	for _, r := range t.routes {
		if mainUnicast(r, af) && r.DstLength == 0 {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b rtnetlink.RouteMessage) int {
		return cmp.Or(cmp.Compare(down(a.Flags), down(b.Flags)), cmp.Compare(a.Attributes.Priority, b.Attributes.Priority))
	})
	return out
}

func down(flags uint32) int {
	if flags&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) != 0 {
		return 1
	}
	return 0
}

func mainUnicast(r rtnetlink.RouteMessage, af uint8) bool {
	table := r.Attributes.Table
	if table == 0 {
		table = uint32(r.Table)
	}
	return r.Family == af && table == unix.RT_TABLE_MAIN && r.Type == unix.RTN_UNICAST
}

// linkLocalDst recognises the fe80::/64 and ff00::/8 routes that every IPv6
// interface has and that say nothing about a network.
func linkLocalDst(r rtnetlink.RouteMessage) bool {
	dst := toAddr(r.Attributes.Dst)
	return r.Family == unix.AF_INET6 && (dst.IsLinkLocalUnicast() || dst.IsMulticast())
}

// bestHop returns the route's next hop, of several the heaviest, of equals the
// first. Hops on loopback interfaces and, unless only is 0, on others than
// that interface do not count.
func (t tables) bestHop(r rtnetlink.RouteMessage, only uint32) (hop, bool) {
	type candidate struct {
		hop
		weight int
	}
	src := toAddr(r.Attributes.Src)
	hops := []candidate{{hop{index: r.Attributes.OutIface, gateway: toAddr(r.Attributes.Gateway), source: src}, 0}}
	if len(r.Attributes.Multipath) > 0 {
		hops = hops[:0]
		for _, nh := range r.Attributes.Multipath {
			weight := int(nh.Hop.Hops) + 1 // rtnh_hops is the weight minus one
			if down(uint32(nh.Hop.Flags)) != 0 {
				weight = 0
			}
			hops = append(hops, candidate{hop{index: nh.Hop.IfIndex, gateway: toAddr(nh.Gateway), source: src}, weight})
		}
	}
	best, found := candidate{weight: -1}, false
	for _, h := range hops {
		if (only != 0 && h.index != only) || t.loopback(h.index) {
			continue
		}
		if h.weight > best.weight {
			best, found = h, true
		}
	}
	return best.hop, found
}

func (t tables) loopback(index uint32) bool {
	l, ok := t.link(index)
	return !ok || l.Flags&unix.IFF_LOOPBACK != 0
}

// toAddr converts and takes the IPv4-in-IPv6 form off.
func toAddr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
