package header

import "net/netip"

// Addr is an IPv6 address, or an IPv4 address in v4-mapped form
// (::ffff:a.b.c.d, RFC 4291 section 2.5.5.2). It is comparable; the zero Addr
// is the unspecified IPv6 address.
type Addr [16]byte

// MAC is an Ethernet address.
type MAC [6]byte

// Broadcast is the Ethernet broadcast address.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// AddrFrom4 returns the v4-mapped form of a.
func AddrFrom4(a [4]byte) Addr {
	return Addr{10: 0xff, 11: 0xff, 12: a[0], 13: a[1], 14: a[2], 15: a[3]}
}

// AddrFromNetip converts a; a zone is dropped. The zero netip.Addr becomes the
// zero Addr.
func AddrFromNetip(a netip.Addr) Addr {
	if !a.IsValid() {
		return Addr{}
	}
	return a.As16()
}

// Netip converts a; IPv4 comes out as a 4-byte address.
func (a Addr) Netip() netip.Addr { return netip.AddrFrom16(a).Unmap() }

// String returns the usual text form of a.
func (a Addr) String() string { return a.Netip().String() }

// Is4 reports whether a is an IPv4 address.
func (a *Addr) Is4() bool {
	return be.Uint64(a[0:8]) == 0 && be.Uint32(a[8:12]) == 0xffff
}

// As4 returns the last four bytes of a, which are the address if a.Is4.
func (a *Addr) As4() [4]byte { return [4]byte(a[12:16]) }

// IsUnspecified reports whether a is 0.0.0.0 or ::.
func (a *Addr) IsUnspecified() bool {
	return *a == Addr{} || *a == Addr{10: 0xff, 11: 0xff}
}

// IsLoopback reports whether a is in 127.0.0.0/8 or is ::1.
func (a *Addr) IsLoopback() bool {
	return a.Is4() && a[12] == 127 || *a == Addr{15: 1}
}

// IsMulticast reports whether a is in 224.0.0.0/4 or ff00::/8.
func (a *Addr) IsMulticast() bool {
	return a.Is4() && a[12]&0xf0 == 0xe0 || a[0] == 0xff
}

// IsLinkLocal reports whether a is in 169.254.0.0/16 or fe80::/10.
func (a *Addr) IsLinkLocal() bool {
	return a.Is4() && a[12] == 169 && a[13] == 254 || a[0] == 0xfe && a[1]&0xc0 == 0x80
}

// IsLimitedBroadcast reports whether a is 255.255.255.255.
func (a *Addr) IsLimitedBroadcast() bool {
	return a.Is4() && be.Uint32(a[12:16]) == 0xffffffff
}

// IsMartian reports whether a may never stand in a packet on a wire: loopback
// (127.0.0.0/8, ::1), unspecified, and all of 0.0.0.0/8 (RFC 1122 section
// 3.2.1.3, RFC 4291 sections 2.5.2 and 2.5.3, RFC 6890).
func (a *Addr) IsMartian() bool {
	return a.IsLoopback() || a.IsUnspecified() || a.Is4() && a[12] == 0
}

// IsMulticast reports whether m is a group address, broadcast included.
func (m *MAC) IsMulticast() bool { return m[0]&1 != 0 }
