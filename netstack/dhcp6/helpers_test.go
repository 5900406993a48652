package dhcp6

import (
	"net"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

var (
	ourMAC   = header.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
	guestMAC = header.MAC{0x52, 0x54, 0, 0, 0, 1}
	groupMAC = header.MAC{0x33, 0x33, 0, 1, 0, 2}
	ourLL    = ip("fe80::1")
	guestLL  = ip("fe80::5054:ff:fe00:1")
	assigned = ip("2001:db8::5")
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func newServer(t testing.TB, edit func(*Config)) *Server {
	t.Helper()
	c := Config{
		MAC: ourMAC, LinkLocal: ourLL, Addr: assigned,
		DNS:    []netip.Addr{ip("192.0.2.53"), ip("2001:db8::53"), ip("::1"), ip("fe80::1")},
		Search: []string{"a.example", "b.example."},
	}
	if edit != nil {
		edit(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wire puts the guest's message m into a frame to dst.
func wire(dst netip.Addr, m []byte) []byte {
	src, to := header.AddrFromNetip(guestLL), header.AddrFromNetip(dst)
	mac := groupMAC
	if dst != allServers {
		mac = ourMAC
	}
	b := appendUDP(nil, guestMAC, mac, &src, &to, m)
	const udp = header.EthLen + header.IPv6Len
	be.PutUint16(b[udp:], portClient)
	be.PutUint16(b[udp+2:], portServer)
	return b
}

// decode takes a frame of ours apart, with other code than ours.
func decode(t testing.TB, frame []byte) *dhcpv6.Message {
	t.Helper()
	var p header.Packet
	if why := header.Parse(&p, frame[:min(len(frame), header.MaxHeaders)], len(frame)); why != header.OK {
		t.Fatalf("our frame: %v", why)
	}
	if p.End != len(frame) || p.SrcMAC != ourMAC || p.DstMAC != guestMAC || p.Src.Netip() != ourLL ||
		p.SrcPort != 547 || p.DstPort != 546 {
		t.Fatalf("our frame: %+v", p)
	}
	udp := frame[p.L4:p.End]
	if s := header.Sum(udp, header.PseudoSum(&p.Src, &p.Dst, header.ProtoUDP, uint32(len(udp)))); s != 0xffff {
		t.Fatal("our frame: bad UDP checksum")
	}
	if len(frame)-header.EthLen > 1280 {
		t.Fatalf("our frame: packet of %d bytes", len(frame)-header.EthLen)
	}
	m, err := dhcpv6.MessageFromBytes(frame[p.Payload:p.End])
	if err != nil {
		t.Fatalf("our frame: %v", err)
	}
	return m
}

// ask hands the message to s and decodes the reply; nil if there is none.
func ask(t testing.TB, s *Server, m *dhcpv6.Message) *dhcpv6.Message {
	t.Helper()
	return askAt(t, s, allServers, m)
}

func askAt(t testing.TB, s *Server, dst netip.Addr, m *dhcpv6.Message) *dhcpv6.Message {
	t.Helper()
	b, ok := s.Handle(nil, wire(dst, m.ToBytes()))
	if !ok {
		return nil
	}
	r := decode(t, b)
	if r.TransactionID != m.TransactionID {
		t.Fatalf("transaction %v, want %v", r.TransactionID, m.TransactionID)
	}
	return r
}

func solicit(t testing.TB, mods ...dhcpv6.Modifier) *dhcpv6.Message {
	t.Helper()
	m, err := dhcpv6.NewSolicit(net.HardwareAddr(guestMAC[:]), mods...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// message is a message of the given kind with our identifiers, if asked for, and
// an IA_NA with the given addresses, if any.
func message(t testing.TB, s *Server, kind dhcpv6.MessageType, withServer bool, addrs ...string) *dhcpv6.Message {
	t.Helper()
	m := &dhcpv6.Message{MessageType: kind, TransactionID: dhcpv6.TransactionID{1, 2, 3}}
	m.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionClientID, OptionData: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 1}})
	if withServer {
		m.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: s.duid})
	}
	if len(addrs) > 0 {
		m.AddOption(ianaOf(1, addrs...))
	}
	return m
}

func ianaOf(id byte, addrs ...string) *dhcpv6.OptIANA {
	ia := &dhcpv6.OptIANA{IaId: [4]byte{3: id}}
	for _, a := range addrs {
		if a != "" {
			ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a)})
		}
	}
	return ia
}

// grants writes the associations of m down: the addresses that are given, those
// that expire with a minus, and the status.
func grants(m *dhcpv6.Message) (out []string) {
	list := func(id dhcpv6.IdentityOptions) (s string) {
		for _, a := range id.Addresses() {
			if a.ValidLifetime == 0 {
				s += "-"
			}
			s += a.IPv6Addr.String() + " "
		}
		if st := id.Status(); st != nil {
			s += st.StatusCode.String()
		}
		return s
	}
	for _, o := range m.Options.Options {
		switch ia := o.(type) {
		case *dhcpv6.OptIANA:
			out = append(out, "NA "+list(ia.Options))
		case *dhcpv6.OptIATA:
			out = append(out, "TA "+list(ia.Options))
		case *dhcpv6.OptIAPD:
			out = append(out, "PD "+ia.Options.Status().StatusCode.String())
		}
	}
	return out
}
