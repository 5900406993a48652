package ndp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/searchlist"
)

// Lifetimes and the hop limit that a router advertisement gives out.
const (
	routerLifetime    = 65535 * time.Second
	validLifetime     = 30 * 24 * time.Hour
	preferredLifetime = 7 * 24 * time.Hour
	curHopLimit       = 64 // IANA's default, RFC 4861 section 6.2.1
)

// Sizes in bytes. The library computes option lengths in 8 bits of bytes, so an
// option has to stay below 256 of them; the protocol would allow 2040.
const (
	maxOptionBytes = 248
	optionHead     = 8 // of RDNSS and DNSSL: type, length, reserved, lifetime
	maxServers     = (maxOptionBytes - optionHead) / 16
	// maxRABytes keeps an advertisement in one packet of any IPv6 link: it
	// cannot be fragmented (RFC 6980).
	maxRABytes = minMTU - header.IPv6Len
)

var be = binary.BigEndian

// ends are the two sides of a frame of ours.
type ends struct {
	srcMAC, dstMAC header.MAC
	src, dst       netip.Addr
}

func (r *Responder) address(dst netip.Addr, dstMAC header.MAC) ends {
	return ends{srcMAC: r.mac, dstMAC: dstMAC, src: r.linkLocal, dst: dst}
}

// appendFrame appends the Ethernet frame that carries the ICMPv6 message body,
// with its checksum. body is not changed.
func appendFrame(dst []byte, e ends, body []byte) []byte {
	src, to := header.AddrFromNetip(e.src), header.AddrFromNetip(e.dst)
	dst = append(dst, e.dstMAC[:]...)
	dst = append(dst, e.srcMAC[:]...)
	dst = be.AppendUint16(dst, header.EtherTypeIPv6)
	dst = append(dst, 0x60, 0, 0, 0)
	dst = be.AppendUint16(dst, uint16(len(body)))
	dst = append(dst, header.ProtoICMPv6, 255)
	dst = append(dst, src[:]...)
	dst = append(dst, to[:]...)
	start := len(dst)
	dst = append(dst, body...)
	b := dst[start:]
	be.PutUint16(b[2:4], 0)
	sum := header.PseudoSum(&src, &to, header.ProtoICMPv6, uint32(len(body)))
	be.PutUint16(b[2:4], ^header.Sum(b, sum))
	return dst
}

// marshalRA encodes what c advertises. Search domains that do not fit, or that
// the library will not encode, are left out.
func marshalRA(c *Config) ([]byte, error) {
	ra := &ndp.RouterAdvertisement{
		CurrentHopLimit:      curHopLimit,
		ManagedConfiguration: c.Managed,
		OtherConfiguration:   c.Other,
		RouterLifetime:       routerLifetime,
		Options:              []ndp.Option{lladdr(ndp.Source, c.MAC)},
	}
	if c.NotDefault {
		ra.RouterLifetime = 0
	}
	if c.MTU != 0 {
		ra.Options = append(ra.Options, ndp.NewMTU(c.MTU))
	}
	if c.Prefix.IsValid() {
		ra.Options = append(ra.Options, &ndp.PrefixInformation{
			PrefixLength:                   64,
			OnLink:                         true,
			AutonomousAddressConfiguration: true,
			ValidLifetime:                  validLifetime,
			PreferredLifetime:              preferredLifetime,
			Prefix:                         c.Prefix.Masked().Addr(),
		})
	}
	if s := servers(c.DNS); len(s) > 0 {
		ra.Options = append(ra.Options, &ndp.RecursiveDNSServer{Lifetime: routerLifetime, Servers: s})
	}
	fixed, err := ndp.MarshalMessage(ra)
	if err != nil {
		return nil, fmt.Errorf("ndp: encode router advertisement: %w", err)
	}
	for _, names := range domainOptions(c.Search, maxRABytes-len(fixed)) {
		ra.Options = append(ra.Options, &ndp.DNSSearchList{Lifetime: routerLifetime, DomainNames: names})
	}
	b, err := ndp.MarshalMessage(ra)
	if err != nil {
		return nil, fmt.Errorf("ndp: encode router advertisement: %w", err)
	}
	return b, nil
}

// servers returns the first IPv6 resolvers of list, which a guest can use: no
// loopback addresses, no zones (RFC 8106 section 5.1).
func servers(list []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		a = a.WithZone("")
		if a.Is6() && !a.Is4In6() && !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() && len(out) < maxServers {
			out = append(out, a)
		}
	}
	return out
}

// domainOptions distributes search domains over DNSSL options that take at most
// room bytes together, cutting the list between two names.
func domainOptions(list []string, room int) [][]string {
	var out [][]string
	used := maxOptionBytes // bytes of the last option, unpadded; forces a first one
	for _, name := range searchlist.Clean(list) {
		n := searchlist.WireBytes(name)
		one := &ndp.RouterAdvertisement{Options: []ndp.Option{&ndp.DNSSearchList{DomainNames: []string{name}}}}
		if _, err := ndp.MarshalMessage(one); err != nil {
			continue
		}
		if used+n > maxOptionBytes {
			if room < optionHead+pad8(n) {
				break
			}
			room -= optionHead
			used = optionHead
			out = append(out, nil)
		}
		grow := pad8(used+n) - pad8(used)
		if room < grow {
			break
		}
		room -= grow
		used += n
		out[len(out)-1] = append(out[len(out)-1], name)
	}
	return out
}

// pad8 rounds n up to the unit of option lengths.
func pad8(n int) int { return (n + 7) &^ 7 }

// marshalNA encodes a solicited advertisement of target at mac. Every one says
// that we are a router. Only own addresses override what the guest knows: a
// nested guest that answers for itself takes precedence over its proxy (RFC
// 4861 section 7.2.8).
func marshalNA(target netip.Addr, mac header.MAC, own bool) ([]byte, error) {
	return ndp.MarshalMessage(&ndp.NeighborAdvertisement{
		Router:        true,
		Solicited:     true,
		Override:      own,
		TargetAddress: target,
		Options:       []ndp.Option{lladdr(ndp.Target, mac)},
	})
}

func marshalNS(target netip.Addr, mac header.MAC) ([]byte, error) {
	return ndp.MarshalMessage(&ndp.NeighborSolicitation{
		TargetAddress: target,
		Options:       []ndp.Option{lladdr(ndp.Source, mac)},
	})
}

func lladdr(d ndp.Direction, mac header.MAC) *ndp.LinkLayerAddress {
	return &ndp.LinkLayerAddress{Direction: d, Addr: net.HardwareAddr(mac[:])}
}
