package addrmap

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

// checkSource refuses addresses that RFC 1122 section 3.2.1.3, RFC 6890 and
// RFC 4291 sections 2.5.2, 2.5.3 and 2.7 forbid as a source.
func checkSource(a *header.Addr, v6 bool) Verdict {
	switch {
	case v6 && embedsIPv4(a):
		return pick(a, SrcUnspecified, SrcLoopback, SrcEmbedded)
	case a.IsMulticast(), a.IsLimitedBroadcast():
		return SrcNotUnicast
	case v6:
		return OK
	case a[12] == 0:
		return SrcUnspecified
	case a[12] == 127:
		return SrcLoopback
	case a[12] >= 240:
		return SrcReserved
	}
	return OK
}

// checkDestination is checkSource for the other end, where multicast and
// broadcast are acceptable.
func checkDestination(a *header.Addr, v6 bool) Verdict {
	switch {
	case v6 && embedsIPv4(a):
		return pick(a, DstUnspecified, DstLoopback, DstEmbedded)
	case v6, a.IsMulticast(), a.IsLimitedBroadcast():
		return OK
	case a[12] == 0:
		return DstUnspecified
	case a[12] == 127:
		return DstLoopback
	case a[12] >= 240:
		return DstReserved
	}
	return OK
}

// embedsIPv4 reports whether an address from an IPv6 packet lies in ::/96 or
// ::ffff:0:0/96. The first holds :: and ::1 besides the long withdrawn
// IPv4-compatible addresses; the second must not be seen on a wire (RFC 6890),
// and a socket would take it for the IPv4 address within.
func embedsIPv4(a *header.Addr) bool {
	return a.Is4() || [12]byte(a[:12]) == [12]byte{}
}

func pick(a *header.Addr, unspecified, loopback, embedded Verdict) Verdict {
	switch *a {
	case header.Addr{}:
		return unspecified
	case header.Addr{15: 1}:
		return loopback
	}
	return embedded
}
