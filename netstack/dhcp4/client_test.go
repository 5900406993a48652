package dhcp4

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// checkLease compares what a client reads out of an offer or acknowledgement.
func checkLease(t *testing.T, r reply, want dhcpv4.MessageType) {
	t.Helper()
	m := r.msg
	if m.MessageType() != want {
		t.Fatalf("got %v, want %v", m.MessageType(), want)
	}
	got := []string{
		m.YourIPAddr.String(), m.ServerIdentifier().String(), net.IP(m.SubnetMask()).String(),
		m.Router()[0].String(), m.DNS()[0].String(), m.DNS()[1].String(), m.IPAddressLeaseTime(0).String(),
		m.ClientHWAddr.String(),
	}
	exp := []string{
		"10.0.0.5", "10.0.0.1", "255.255.255.0", "10.0.0.1", "192.0.2.53", "192.0.2.54", "24h0m0s",
		guestHW.String(),
	}
	if diff := cmp.Diff(exp, got); diff != "" {
		t.Errorf("lease (-want +got):\n%s", diff)
	}
	if mtu := m.Options.Get(dhcpv4.OptionInterfaceMTU); string(mtu) != "\xff\xf0" {
		t.Errorf("MTU %x", mtu)
	}
	if r.codes[0] != 53 {
		t.Errorf("first option is %d", r.codes[0])
	}
}

// TestClientLife goes through all that a client does, with its own encoder.
func TestClientLife(t *testing.T) {
	s := newServer(t, nil)

	disc := discover(t)
	offer := ask(t, s, broadcast(disc))
	checkLease(t, offer, dhcpv4.MessageTypeOffer)
	if offer.msg.TransactionID != disc.TransactionID {
		t.Error("transaction identifier changed")
	}

	ack := ask(t, s, broadcast(must(t)(dhcpv4.NewRequestFromOffer(offer.msg))))
	checkLease(t, ack, dhcpv4.MessageTypeAck)

	renew := must(t)(dhcpv4.NewRenewFromAck(ack.msg))
	renewed := ask(t, s, wire(ip("10.0.0.5"), ip("10.0.0.1"), renew.ToBytes()))
	checkLease(t, renewed, dhcpv4.MessageTypeAck)
	if renewed.dst != ip("10.0.0.5") || renewed.dstMAC != guestMAC || renewed.msg.ClientIPAddr.String() != "10.0.0.5" {
		t.Errorf("RFC 2131 4.3.2 RENEWING: reply to %v at %v, ciaddr %v", renewed.dst, renewed.dstMAC, renewed.msg.ClientIPAddr)
	}

	rebound := ask(t, s, wire(ip("10.0.0.5"), limitedBroadcast, renew.ToBytes()))
	checkLease(t, rebound, dhcpv4.MessageTypeAck)

	inform := must(t)(dhcpv4.NewInform(guestHW, net.IPv4(10, 0, 0, 9)))
	informed := ask(t, s, wire(ip("10.0.0.9"), limitedBroadcast, inform.ToBytes()))
	if m := informed.msg; m.MessageType() != dhcpv4.MessageTypeAck || !m.YourIPAddr.IsUnspecified() ||
		m.Options.Has(dhcpv4.OptionIPAddressLeaseTime) || m.ServerIdentifier().String() != "10.0.0.1" ||
		m.Router()[0].String() != "10.0.0.1" || informed.dst != ip("10.0.0.9") {
		t.Errorf("RFC 2131 4.3.5 DHCPINFORM: reply to %v: %s", informed.dst, m.Summary())
	}

	release := must(t)(dhcpv4.NewReleaseFromACK(ack.msg))
	if _, ok := s.Handle(nil, wire(ip("10.0.0.5"), ip("10.0.0.1"), release.ToBytes())); ok {
		t.Error("RFC 2131 4.3.4 DHCPRELEASE: answered")
	}
	release.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeDecline))
	if _, ok := s.Handle(nil, broadcast(release)); ok {
		t.Error("RFC 2131 4.3.3 DHCPDECLINE: answered")
	}
	if again := ask(t, s, broadcast(discover(t))); again.msg.YourIPAddr.String() != "10.0.0.5" {
		t.Errorf("after a DHCPDECLINE the one address is gone: %s", again.msg.Summary())
	}
	want := Counters{Offers: 2, Acks: 4, Releases: 1, Declines: 1}
	if diff := cmp.Diff(want, s.Counters()); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

func TestRequest(t *testing.T) {
	const none = dhcpv4.MessageTypeNone
	tests := []struct {
		name                   string
		server, wanted, ciaddr string
		want                   dhcpv4.MessageType
	}{
		{"RFC 2131 4.3.2 SELECTING", "10.0.0.1", "10.0.0.5", "", dhcpv4.MessageTypeAck},
		{"RFC 2131 4.3.2 SELECTING another server", "10.0.0.2", "10.0.0.5", "", none},
		{"RFC 2131 3.6 SELECTING a wrong address", "10.0.0.1", "10.0.0.6", "", dhcpv4.MessageTypeNak},
		{"RFC 2131 4.3.2 INIT-REBOOT", "", "10.0.0.5", "", dhcpv4.MessageTypeAck},
		{"RFC 2131 4.3.2 INIT-REBOOT wrong address", "", "10.0.0.6", "", dhcpv4.MessageTypeNak},
		{"RFC 2131 4.3.2 INIT-REBOOT wrong network", "", "192.168.1.5", "", dhcpv4.MessageTypeNak},
		{"RFC 2131 4.3.2 RENEWING", "", "", "10.0.0.5", dhcpv4.MessageTypeAck},
		{"RFC 2131 4.3.2 RENEWING a wrong address", "", "", "10.0.0.6", dhcpv4.MessageTypeNak},
		{"renewing with all fields", "10.0.0.1", "10.0.0.5", "10.0.0.5", dhcpv4.MessageTypeAck},
		{"renewing with a server identifier", "10.0.0.1", "", "10.0.0.5", dhcpv4.MessageTypeAck},
		{"asks for nothing", "", "", "", none},
		{"selects and asks for nothing", "10.0.0.1", "", "", none},
		{"asks for the unspecified address", "", "0.0.0.0", "", dhcpv4.MessageTypeNak},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, nil)
			m := requestOf(t, tt.server, tt.wanted, tt.ciaddr)
			b, ok := s.Handle(nil, broadcast(m))
			if !ok {
				if tt.want != none {
					t.Fatal("no reply")
				}
				if n := s.Counters().Ignored; n != 1 {
					t.Errorf("ignored %d", n)
				}
				return
			}
			r := decode(t, b)
			if got := r.msg.MessageType(); got != tt.want {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			if tt.want == dhcpv4.MessageTypeNak {
				checkNak(t, r)
			} else {
				checkLease(t, r, tt.want)
			}
		})
	}
}

// checkNak checks RFC 2131 table 3 and section 4.1.
func checkNak(t *testing.T, r reply) {
	t.Helper()
	if diff := cmp.Diff([]uint8{53, 54, 56}, r.codes); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if r.dst != limitedBroadcast || r.dstMAC != header.Broadcast {
		t.Errorf("sent to %v at %v", r.dst, r.dstMAC)
	}
	if !r.msg.YourIPAddr.IsUnspecified() || !r.msg.ClientIPAddr.IsUnspecified() {
		t.Errorf("addresses in a DHCPNAK: %s", r.msg.Summary())
	}
}

func TestRapidCommit(t *testing.T) {
	s := newServer(t, nil)
	r := ask(t, s, broadcast(discover(t, dhcpv4.WithGeneric(dhcpv4.OptionRapidCommit, nil))))
	checkLease(t, r, dhcpv4.MessageTypeAck)
	if !r.msg.Options.Has(dhcpv4.OptionRapidCommit) {
		t.Error("RFC 4039 3.1: option 80 missing")
	}
	m := requestOf(t, "10.0.0.1", "10.0.0.5", "")
	m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionRapidCommit, nil))
	if r := ask(t, s, broadcast(m)); r.msg.Options.Has(dhcpv4.OptionRapidCommit) {
		t.Error("RFC 4039 4: option 80 outside a two-message exchange")
	}
}

func TestDestination(t *testing.T) {
	tests := []struct {
		name string
		m    *dhcpv4.DHCPv4
		dst  string
		mac  header.MAC
	}{
		{"RFC 2131 4.1 unicast to yiaddr", discover(t, dhcpv4.WithBroadcast(false)), "10.0.0.5", guestMAC},
		{"RFC 2131 4.1 broadcast flag", discover(t, dhcpv4.WithBroadcast(true)), "255.255.255.255", header.Broadcast},
		{
			"RFC 2131 4.1 ciaddr before the broadcast flag",
			discover(t, dhcpv4.WithBroadcast(true), dhcpv4.WithClientIP(net.IPv4(10, 0, 0, 7))), "10.0.0.7", guestMAC,
		},
		{
			"ciaddr that is no station's is not used",
			discover(t, dhcpv4.WithClientIP(net.IPv4(127, 0, 0, 1))), "10.0.0.5", guestMAC,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ask(t, newServer(t, nil), broadcast(tt.m))
			if r.dst != ip(tt.dst) || r.dstMAC != tt.mac || r.msg.Flags != tt.m.Flags {
				t.Errorf("reply to %v at %v, flags %#x", r.dst, r.dstMAC, r.msg.Flags)
			}
		})
	}

	noAddr := must(t)(dhcpv4.NewInform(guestHW, net.IPv4zero))
	if r := ask(t, newServer(t, nil), wire(ip("10.0.0.9"), limitedBroadcast, noAddr.ToBytes())); r.dst != ip("10.0.0.9") {
		t.Errorf("DHCPINFORM without ciaddr: reply to %v", r.dst)
	}
	if _, ok := newServer(t, nil).Handle(nil, broadcast(noAddr)); ok {
		t.Error("DHCPINFORM without any address: answered")
	}
}

func TestSecondBootWithOtherMAC(t *testing.T) {
	s := newServer(t, nil)
	ask(t, s, broadcast(discover(t)))
	other := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 9}
	r := ask(t, s, broadcast(must(t)(dhcpv4.NewDiscovery(other))))
	if r.msg.YourIPAddr.String() != "10.0.0.5" || r.dstMAC != header.MAC(other) {
		t.Errorf("offer to %v: %s", r.dstMAC, r.msg.Summary())
	}
}

func TestLeaseTimes(t *testing.T) {
	ask58 := dhcpv4.WithRequestedOptions(dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue)
	r := ask(t, newServer(t, func(c *Config) { c.Lease = 1000 * time.Second }), broadcast(discover(t, ask58)))
	if a, b, c := r.msg.IPAddressLeaseTime(0), r.msg.IPAddressRenewalTime(0), r.msg.IPAddressRebindingTime(0); a != 1000*time.Second || b != 500*time.Second || c != 875*time.Second {
		t.Errorf("RFC 2131 4.4.5 times: %v %v %v", a, b, c)
	}
	r = ask(t, newServer(t, func(c *Config) { c.Lease = InfiniteLease }), broadcast(discover(t, ask58)))
	if got := r.msg.Options.Get(dhcpv4.OptionIPAddressLeaseTime); string(got) != "\xff\xff\xff\xff" {
		t.Errorf("RFC 2131 3.3 infinity: %x", got)
	}
	if r.msg.Options.Has(dhcpv4.OptionRenewTimeValue) {
		t.Error("renewal time of an infinite lease")
	}
}

func TestHostWithoutGateway(t *testing.T) {
	s := newServer(t, func(c *Config) {
		c.Addr, c.Router, c.DNS, c.MTU = netip.MustParsePrefix("169.254.2.1/16"), netip.Addr{}, nil, 0
	})
	r := ask(t, s, broadcast(discover(t)))
	if diff := cmp.Diff([]uint8{53, 54, 51, 1}, r.codes); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}
