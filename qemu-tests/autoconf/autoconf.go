// Package autoconf configures an in-process guest from what its link tells: DHCP, router advertisements and DHCPv6, by
// independent encoders.
package autoconf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/mdlayher/ndp"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// Lease is what DHCP gave.
type Lease struct {
	Addr   netip.Prefix
	Router netip.Addr
	DNS    []netip.Addr
}

// Client listens to a guest's link. Its Tap has to be the guest's from the start.
type Client struct {
	guest  *gvguest.Guest
	frames chan []byte
}

// New returns a client without a guest.
func New() *Client { return &Client{frames: make(chan []byte, 256)} }

// Tap takes the frames to the guest that concern the client.
func (c *Client) Tap(fromGuest bool, frame []byte) {
	if fromGuest || len(frame) < 62 || !interesting(frame) {
		return
	}
	select {
	case c.frames <- append([]byte(nil), frame...):
	default: // nobody listens any more
	}
}

func interesting(f []byte) bool {
	switch binary.BigEndian.Uint16(f[12:14]) {
	case header.EtherTypeIPv4:
		return f[23] == header.ProtoUDP && f[35] == dhcpv4.ServerPort
	case header.EtherTypeIPv6:
		return f[20] == header.ProtoICMPv6 && f[54] == 134 ||
			f[20] == header.ProtoUDP && binary.BigEndian.Uint16(f[54:56]) == dhcpv6.DefaultServerPort
	}
	return false
}

// Attach gives the client its guest.
func (c *Client) Attach(g *gvguest.Guest) { c.guest = g }

// exchange sends packet, again and again, until accept takes one of the frames that come. A nil packet is not sent.
func (c *Client) exchange(ctx context.Context, to [6]byte, packet []byte, accept func(frame []byte) bool) error {
	for try := time.NewTicker(time.Second); ; {
		if packet != nil {
			if err := c.guest.SendRaw(to, packet); err != nil {
				return err
			}
		}
	wait:
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case f := <-c.frames:
				if accept(f) {
					return nil
				}
			case <-try.C:
				break wait
			}
		}
	}
}

// datagram is a UDP packet of the guest.
func datagram(src, dst netip.AddrPort, payload []byte) []byte {
	ip := header.IP{Src: header.AddrFromNetip(src.Addr()), Dst: header.AddrFromNetip(dst.Addr()), Proto: header.ProtoUDP, TTL: 64}
	b := make([]byte, header.IPv6Len+header.UDPLen+len(payload))
	l4 := header.PutIP(b, &ip, header.UDPLen+len(payload))
	b = b[:l4+header.UDPLen+len(payload)]
	copy(b[l4+header.PutUDP(b[l4:], src.Port(), dst.Port(), len(payload)):], payload)
	header.SetChecksum(b[l4:], &ip.Src, &ip.Dst, header.ProtoUDP)
	return b
}

// DHCP gets an address, in four messages.
func (c *Client) DHCP(ctx context.Context) (l Lease, err error) {
	mac := gvguest.MAC()
	m, err := dhcpv4.NewDiscovery(net.HardwareAddr(mac[:]))
	if err != nil {
		return l, err
	}
	offer, err := c.dhcp(ctx, m, dhcpv4.MessageTypeOffer)
	if err != nil {
		return l, fmt.Errorf("DHCPDISCOVER: %w", err)
	}
	if m, err = dhcpv4.NewRequestFromOffer(offer); err != nil {
		return l, err
	}
	ack, err := c.dhcp(ctx, m, dhcpv4.MessageTypeAck)
	if err != nil {
		return l, fmt.Errorf("DHCPREQUEST: %w", err)
	}
	bits, _ := ack.SubnetMask().Size()
	l.Addr = netip.PrefixFrom(addr(ack.YourIPAddr), bits)
	if r := ack.Router(); len(r) > 0 {
		l.Router = addr(r[0])
	}
	for _, d := range ack.DNS() {
		l.DNS = append(l.DNS, addr(d))
	}
	return l, nil
}

func (c *Client) dhcp(ctx context.Context, m *dhcpv4.DHCPv4, want dhcpv4.MessageType) (answer *dhcpv4.DHCPv4, err error) {
	packet := datagram(netip.AddrPortFrom(netip.IPv4Unspecified(), dhcpv4.ClientPort),
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), dhcpv4.ServerPort), m.ToBytes())
	err = c.exchange(ctx, header.Broadcast, packet, func(f []byte) bool {
		if binary.BigEndian.Uint16(f[12:14]) != header.EtherTypeIPv4 {
			return false
		}
		answer, err = dhcpv4.FromBytes(f[header.EthLen+header.IPv4Len+header.UDPLen:])
		return err == nil && answer.TransactionID == m.TransactionID && answer.MessageType() == want
	})
	return answer, err
}

// Advertisement is what a router advertisement says.
type Advertisement struct {
	Router        netip.Addr
	Prefix        netip.Prefix // for addresses of the guest's own making
	Managed       bool
	DefaultRouter bool
	DNS           []netip.Addr
}

// RA waits for a router advertisement, and asks for one.
func (c *Client) RA(ctx context.Context) (a Advertisement, err error) {
	body, err := ndp.MarshalMessage(&ndp.RouterSolicitation{})
	if err != nil {
		return a, err
	}
	allRouters := netip.MustParseAddr("ff02::2")
	ip := header.IP{Dst: header.AddrFromNetip(allRouters), Proto: header.ProtoICMPv6, TTL: 255}
	packet := make([]byte, header.IPv6Len+len(body))
	copy(packet[header.PutIP(packet, &ip, len(body)):], body)
	header.SetChecksum(packet[header.IPv6Len:], &ip.Src, &ip.Dst, header.ProtoICMPv6)
	err = c.exchange(ctx, [6]byte{0x33, 0x33, 0, 0, 0, 2}, packet, func(f []byte) bool {
		if f[20] != header.ProtoICMPv6 {
			return false
		}
		m, perr := ndp.ParseMessage(f[header.EthLen+header.IPv6Len:])
		ra, ok := m.(*ndp.RouterAdvertisement)
		if perr != nil || !ok {
			return false
		}
		a = read(ra)
		a.Router = netip.AddrFrom16([16]byte(f[22:38]))
		return true
	})
	return a, err
}

func read(ra *ndp.RouterAdvertisement) Advertisement {
	a := Advertisement{Managed: ra.ManagedConfiguration, DefaultRouter: ra.RouterLifetime > 0}
	for _, o := range ra.Options {
		switch o := o.(type) {
		case *ndp.PrefixInformation:
			a.Prefix = netip.PrefixFrom(o.Prefix, int(o.PrefixLength))
		case *ndp.RecursiveDNSServer:
			a.DNS = append(a.DNS, o.Servers...)
		}
	}
	return a
}

// DHCPv6 gets an address, in two messages.
func (c *Client) DHCPv6(ctx context.Context) (l Lease, err error) {
	mac := gvguest.MAC()
	m, err := dhcpv6.NewSolicit(net.HardwareAddr(mac[:]), dhcpv6.WithRapidCommit)
	if err != nil {
		return l, err
	}
	packet := datagram(netip.AddrPortFrom(linkLocal(mac), dhcpv6.DefaultClientPort),
		netip.AddrPortFrom(netip.MustParseAddr("ff02::1:2"), dhcpv6.DefaultServerPort), m.ToBytes())
	var answer *dhcpv6.Message
	err = c.exchange(ctx, [6]byte{0x33, 0x33, 0, 1, 0, 2}, packet, func(f []byte) bool {
		if f[20] != header.ProtoUDP {
			return false
		}
		answer, err = dhcpv6.MessageFromBytes(f[header.EthLen+header.IPv6Len+header.UDPLen:])
		return err == nil && answer.TransactionID == m.TransactionID
	})
	if err != nil {
		return l, err
	}
	ia := answer.Options.OneIANA()
	if ia == nil || ia.Options.OneAddress() == nil {
		return l, errors.New("no address in the answer")
	}
	l.Addr = netip.PrefixFrom(addr(ia.Options.OneAddress().IPv6Addr), 128)
	for _, d := range answer.Options.DNS() {
		l.DNS = append(l.DNS, addr(d))
	}
	return l, nil
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// linkLocal is the address that a station with this hardware address has from the start (RFC 4291, appendix A).
func linkLocal(m [6]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5],
	})
}
