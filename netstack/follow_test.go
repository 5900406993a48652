package netstack_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/mdlayher/ndp"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// TestFollow: the guest is told of new resolvers, at once and when it asks, and
// its queries to old ones arrive; its addresses stay.
func TestFollow(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.fill(32)
	isRA := func(f []byte) bool { return isV6(f, header.ProtoICMPv6) && f[l4v6] == 134 }
	r.expect("router advertisement", isRA)

	new4, new6 := netip.MustParseAddr("192.0.2.99"), netip.MustParseAddr("2001:db8:1::99")
	live := netstack.Live{
		DNS: []netip.Addr{new4, new6}, Search: []string{"new.example"}, NoDefault: true, OwnGateway: true,
		DNSForward: []addrmap.Forward{{Seen: netip.MustParseAddr("192.0.2.53"), Host: netip.MustParseAddr("127.0.0.1")}},
	}
	var err error
	r.worker.Park(func() { err = r.worker.Follow(live) })
	r.must(err)
	m, err := ndp.ParseMessage(r.expect("router advertisement", isRA)[l4v6:])
	r.must(err)
	ra := m.(*ndp.RouterAdvertisement)
	var resolvers []netip.Addr
	for _, o := range ra.Options {
		if d, ok := o.(*ndp.RecursiveDNSServer); ok {
			resolvers = d.Servers
		}
	}
	if len(resolvers) != 1 || resolvers[0] != new6 || ra.RouterLifetime != 0 {
		t.Errorf("resolvers %v, lifetime %v", resolvers, ra.RouterLifetime)
	}

	discover, err := dhcpv4.NewDiscovery(net.HardwareAddr(guestMAC[:]))
	r.must(err)
	r.send(udp4(netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67"), header.Broadcast, discover.ToBytes()))
	const l4 = header.EthLen + header.IPv4Len
	f := r.expect("DHCP answer", func(f []byte) bool {
		return len(f) > l4+8 && f[12] == 8 && f[13] == 0 && f[23] == header.ProtoUDP && f[l4+1] == dhcpv4.ServerPort
	})
	offer, err := dhcpv4.FromBytes(f[l4+header.UDPLen:])
	r.must(err)
	if offer.YourIPAddr.String() != guest4.String() || len(offer.DNS()) != 1 || offer.DNS()[0].String() != new4.String() {
		t.Errorf("offer %v", offer.Summary())
	}
}

// TestFollowRefuses: what is wrong changes nothing.
func TestFollowRefuses(t *testing.T) {
	r := newRig(t, testConfig(), 0, heap())
	r.fill(8)
	bad := netstack.Live{DNSForward: []addrmap.Forward{{Seen: netip.IPv6Loopback(), Host: netip.IPv6Loopback()}}}
	var err error
	r.worker.Park(func() { err = r.worker.Follow(bad) })
	if err == nil {
		t.Error("no error")
	}
	r.send(askGateway())
	r.expect("answer about the gateway", isGateway)
}
