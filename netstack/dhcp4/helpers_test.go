package dhcp4

import (
	"net"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

var (
	ourMAC   = header.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
	guestMAC = header.MAC{0x52, 0x54, 0, 0, 0, 1}
	guestHW  = net.HardwareAddr(guestMAC[:])
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func newPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func newServer(t testing.TB, edit func(*Config)) *Server {
	t.Helper()
	c := Config{
		MAC:    ourMAC,
		Server: ip("10.0.0.1"),
		Addr:   netip.MustParsePrefix("10.0.0.5/24"),
		Router: ip("10.0.0.1"),
		DNS:    []netip.Addr{ip("192.0.2.53"), ip("192.0.2.54")},
		MTU:    65520,
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

// wire puts a message of the guest into a frame.
func wire(src, dst netip.Addr, message []byte) []byte {
	client := &Server{mac: guestMAC, server: src}
	mac := ourMAC
	if dst == limitedBroadcast {
		mac = header.Broadcast
	}
	b := client.appendFrame(nil, mac, dst, message)
	const udp = header.EthLen + header.IPv4Len
	be.PutUint16(b[udp:], portClient)
	be.PutUint16(b[udp+2:], portServer)
	return b
}

// broadcast is how a client without an address sends m.
func broadcast(m *dhcpv4.DHCPv4) []byte {
	return wire(netip.IPv4Unspecified(), limitedBroadcast, m.ToBytes())
}

// reply is a frame of ours, taken apart by other code than ours.
type reply struct {
	dstMAC header.MAC
	dst    netip.Addr
	msg    *dhcpv4.DHCPv4
	raw    []byte // the message
	codes  []uint8
	bytes  int
}

func decode(t testing.TB, frame []byte) reply {
	t.Helper()
	var p header.Packet
	if why := header.Parse(&p, frame[:min(len(frame), header.MaxHeaders)], len(frame)); why != header.OK {
		t.Fatalf("our frame: %v", why)
	}
	if p.End != len(frame) || p.SrcMAC != ourMAC || p.Src.Netip() != ip("10.0.0.1") || p.SrcPort != 67 || p.DstPort != 68 {
		t.Fatalf("our frame: %+v", p)
	}
	udp := frame[p.L4:p.End]
	if s := header.Sum(udp, header.PseudoSum(&p.Src, &p.Dst, header.ProtoUDP, uint32(len(udp)))); s != 0xffff {
		t.Fatal("our frame: bad UDP checksum")
	}
	raw := frame[p.Payload:p.End]
	m, err := dhcpv4.FromBytes(raw)
	if err != nil {
		t.Fatalf("our frame: %v", err)
	}
	if len(raw) < 300 || m.OpCode != dhcpv4.OpcodeBootReply || m.HopCount != 0 || m.NumSeconds != 0 {
		t.Fatalf("our message of %d bytes: %s", len(raw), m.Summary())
	}
	r := reply{dstMAC: p.DstMAC, dst: p.Dst.Netip(), msg: m, raw: raw}
	o := raw[sizeHeader+len(cookie):]
	for o[0] != 255 {
		r.codes = append(r.codes, o[0])
		o = o[2+int(o[1]):]
	}
	r.bytes = len(raw) - len(o) + 1
	for _, b := range o[1:] {
		if b != 0 {
			t.Fatal("our message: garbage behind the end mark")
		}
	}
	return r
}

// ask hands frame to s and decodes the reply.
func ask(t testing.TB, s *Server, frame []byte) reply {
	t.Helper()
	b, ok := s.Handle(nil, frame)
	if !ok {
		t.Fatal("no reply")
	}
	return decode(t, b)
}

// must returns m, for the client side of the library.
func must(t testing.TB) func(m *dhcpv4.DHCPv4, err error) *dhcpv4.DHCPv4 {
	return func(m *dhcpv4.DHCPv4, err error) *dhcpv4.DHCPv4 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func discover(t testing.TB, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	return must(t)(dhcpv4.NewDiscovery(guestHW, mods...))
}

// requestOf is a DHCPREQUEST with the given fields; empty ones are left out.
func requestOf(t testing.TB, server, wanted, ciaddr string) *dhcpv4.DHCPv4 {
	t.Helper()
	m := must(t)(dhcpv4.New(dhcpv4.WithHwAddr(guestHW), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest)))
	if server != "" {
		m.UpdateOption(dhcpv4.OptServerIdentifier(net.ParseIP(server)))
	}
	if wanted != "" {
		m.UpdateOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(wanted)))
	}
	if ciaddr != "" {
		m.ClientIPAddr = net.ParseIP(ciaddr)
	}
	return m
}
