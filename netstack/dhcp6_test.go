package netstack_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/mdlayher/ndp"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

var (
	lease6    = netip.MustParseAddr("2001:db8:1::77")
	guestLL   = netip.MustParseAddr("fe80::5054:ff:fe12:3456")
	dhcpGroup = netip.MustParseAddr("ff02::1:2")
	dhcpMAC   = header.MAC{0x33, 0x33, 0, 1, 0, 2}
)

const l4v6 = header.EthLen + header.IPv6Len

func isV6(f []byte, proto byte) bool {
	return len(f) > l4v6+header.UDPLen && f[12] == 0x86 && f[13] == 0xdd && f[20] == proto
}

// TestDHCPv6: the guest is told by router advertisement to ask, and gets its
// address, through the rings.
func TestDHCPv6(t *testing.T) {
	cfg := testConfig()
	cfg.IPv6.Lease = lease6
	r := newRig(t, cfg, 0, heap())
	r.fill(16)
	f := r.expect("router advertisement", func(f []byte) bool { return isV6(f, header.ProtoICMPv6) && f[l4v6] == 134 })
	m, err := ndp.ParseMessage(f[l4v6:])
	r.must(err)
	if ra := m.(*ndp.RouterAdvertisement); !ra.ManagedConfiguration || ra.OtherConfiguration {
		t.Errorf("RFC 4861 4.2 flags %+v", ra)
	}

	solicit, err := dhcpv6.NewSolicit(net.HardwareAddr(guestMAC[:]), dhcpv6.WithRapidCommit)
	r.must(err)
	r.send(toDHCPv6(solicit.ToBytes()))
	f = r.expect("DHCPv6 answer", func(f []byte) bool { return isV6(f, header.ProtoUDP) && f[l4v6+1] == 547&0xff })
	answer, err := dhcpv6.MessageFromBytes(f[l4v6+header.UDPLen:])
	r.must(err)
	if ia := answer.Options.OneIANA(); ia == nil || ia.Options.OneAddress() == nil || ia.Options.OneAddress().IPv6Addr.String() != lease6.String() {
		t.Errorf("got %v", answer)
	}
}

// TestManagedFlags: what a router advertisement says of DHCPv6 is what there is.
func TestManagedFlags(t *testing.T) {
	tests := []struct {
		name           string
		edit           func(*netstack.Config)
		managed, other bool
	}{
		{"an address by DHCPv6", func(c *netstack.Config) { c.IPv6.Lease = lease6 }, true, false},
		{"an assigned address", func(c *netstack.Config) { c.IPv6.Guest = lease6 }, true, false},
		{"no address", func(*netstack.Config) {}, false, true},
		{"no DHCPv6", func(c *netstack.Config) { c.IPv6.Lease, c.NoDHCP6 = lease6, true }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig()
			tt.edit(&cfg)
			r := newRig(t, cfg, 0, heap())
			r.fill(8)
			f := r.expect("router advertisement", func(f []byte) bool { return isV6(f, header.ProtoICMPv6) && f[l4v6] == 134 })
			m, err := ndp.ParseMessage(f[l4v6:])
			r.must(err)
			if ra := m.(*ndp.RouterAdvertisement); ra.ManagedConfiguration != tt.managed || ra.OtherConfiguration != tt.other {
				t.Errorf("managed %v, other %v", ra.ManagedConfiguration, ra.OtherConfiguration)
			}
		})
	}
}

// TestForwardToProbedAddress: a guest that forms its address from something else
// than its hardware address is reached all the same, before it has sent
// anything from there: it has done duplicate address detection.
func TestForwardToProbedAddress(t *testing.T) {
	port := freePort(t)
	cfg := testConfig()
	cfg.IPv6.Lease = lease6
	cfg.Forwards = []forward.Rule{{
		Proto: forward.UDP, ListenAddr: netip.IPv6Loopback(), FirstPort: port, LastPort: port, TargetFirstPort: 7,
	}}
	r := newRig(t, cfg, 0, heap())
	r.fill(32)
	own := netip.MustParseAddr("2001:db8:1::abcd")
	probe, err := ndp.MarshalMessage(&ndp.NeighborSolicitation{TargetAddress: own})
	r.must(err)
	r.send(icmp6(netip.IPv6Unspecified(), netip.MustParseAddr("ff02::1:ff00:abcd"), header.MAC{0x33, 0x33, 0xff, 0, 0xab, 0xcd}, probe))
	c, err := net.Dial("udp6", netip.AddrPortFrom(netip.IPv6Loopback(), port).String())
	r.must(err)
	defer c.Close()
	r.worker.Park(func() {}) // the probe is through
	_, err = c.Write([]byte("hello"))
	r.must(err)
	f := r.expect("datagram", func(f []byte) bool { return isV6(f, header.ProtoUDP) && f[l4v6+3] == 7 })
	if got := netip.AddrFrom16([16]byte(f[header.EthLen+24 : header.EthLen+40])); got != own {
		t.Errorf("sent to %v, want %v", got, own)
	}
}

// toDHCPv6 is a message of the guest to all servers.
func toDHCPv6(message []byte) []byte {
	b := make([]byte, header.UDPLen+len(message))
	copy(b[header.PutUDP(b, 546, 547, len(message)):], message)
	return v6Frame(header.ProtoUDP, guestLL, dhcpGroup, dhcpMAC, b)
}

// icmp6 is a neighbour discovery message of the guest.
func icmp6(src, dst netip.Addr, mac header.MAC, body []byte) []byte {
	return v6Frame(header.ProtoICMPv6, src, dst, mac, body)
}

func v6Frame(proto byte, src, dst netip.Addr, mac header.MAC, body []byte) []byte {
	b := make([]byte, l4v6+len(body))
	ip := header.IP{Src: header.AddrFromNetip(src), Dst: header.AddrFromNetip(dst), Proto: proto, TTL: 255}
	l3 := header.PutEth(b, mac, guestMAC, ip.EtherType())
	l4 := l3 + header.PutIP(b[l3:], &ip, len(body))
	copy(b[l4:], body)
	header.SetChecksum(b[l4:], &ip.Src, &ip.Dst, proto)
	return b
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	return uint16(c.LocalAddr().(*net.UDPAddr).Port)
}
