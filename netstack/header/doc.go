// Package header is packet arithmetic: the layouts of Ethernet, IPv4, IPv6,
// TCP, UDP, ICMP and of the virtio-net header, and the Internet checksum.
//
// Everything works on byte slices and fixed-size values. Nothing here opens a
// descriptor, allocates, or panics on what a packet contains. [Parse] must be
// given a private copy of the headers: memory that a guest can change between
// two reads cannot be checked.
//
// The order in which a frame from the guest is looked at:
//
//	v := header.ParseVnet(scratch[:header.VnetLen])
//	if why := v.CheckFromGuest(features, frameLen); why != header.OK { drop }
//	if why := header.Parse(&p, hdr, frameLen); why != header.OK { drop }
//	if why := v.Matches(&p); why != header.OK { drop }
//
// Addresses are [Addr]: 16 bytes, IPv4 in its v4-mapped form, so that one
// table and one code path serve both families.
package header

import "encoding/binary"

// be is the order of all fields on the wire.
var be = binary.BigEndian

// EtherTypes (IEEE 802 numbers).
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeARP  = 0x0806
	EtherTypeRARP = 0x8035
	EtherTypeIPv6 = 0x86dd
)

// IP protocol numbers, including IPv6 extension headers (IANA).
const (
	ProtoHopByHop = 0
	ProtoICMP     = 1
	ProtoTCP      = 6
	ProtoUDP      = 17
	ProtoRouting  = 43
	ProtoFragment = 44
	ProtoICMPv6   = 58
	ProtoNone     = 59
	ProtoDestOpts = 60
)

// Header sizes in bytes, without options.
const (
	EthLen      = 14
	IPv4Len     = 20
	IPv6Len     = 40
	FragmentLen = 8 // IPv6 fragment extension header
	TCPLen      = 20
	UDPLen      = 8
	ICMPLen     = 8 // ICMP and ICMPv6: type, code, checksum, 4 bytes more
)

// MaxHeaders is how much of a frame [Parse] looks at, in bytes. Headers that do
// not end within it are refused; ordinary ones take at most 14+60+60.
const MaxHeaders = 256

// maxIPLen is the largest value of a 16-bit length field.
const maxIPLen = 65535
