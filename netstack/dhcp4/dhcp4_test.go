package dhcp4

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// bootpRequest is a message of a client that knows RFC 951 only.
func bootpRequest(size int, vendor ...byte) []byte {
	m := dhcpv4.DHCPv4{OpCode: dhcpv4.OpcodeBootRequest, HWType: hwEthernet, ClientHWAddr: guestHW}
	b := append(m.ToBytes()[:sizeHeader], make([]byte, size)...)
	copy(b[sizeHeader:], vendor)
	return b[:size]
}

func TestBootp(t *testing.T) {
	tests := []struct {
		name    string
		message []byte
		edit    func(*Config)
		want    []uint8
	}{
		{"RFC 951 3 without a cookie", bootpRequest(300), nil, []uint8{1, 3, 6, 26}},
		{"RFC 1497 with a cookie", bootpRequest(300, 99, 130, 83, 99, 255), nil, []uint8{1, 3, 6, 26}},
		{"without an end mark", bootpRequest(300, 99, 130, 83, 99), nil, []uint8{1, 3, 6, 26}},
		{"header only", bootpRequest(sizeHeader), nil, []uint8{1, 3, 6, 26}},
		{"no more than the client's 64 bytes", bootpRequest(300), func(c *Config) {
			c.Hostname = strings.Repeat("h", 40)
			c.Search = []string{"a.example"}
		}, []uint8{1, 3, 6, 26, 119}},
		{"RFC 1542 2.1 larger client", bootpRequest(400), func(c *Config) {
			c.Hostname = strings.Repeat("h", 40)
		}, []uint8{1, 3, 6, 26, 12}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.edit)
			r := ask(t, s, wire(netip.IPv4Unspecified(), limitedBroadcast, tt.message))
			if diff := cmp.Diff(tt.want, r.codes); diff != "" {
				t.Errorf("RFC 2132 9: options (-want +got):\n%s", diff)
			}
			if r.msg.YourIPAddr.String() != "10.0.0.5" || r.dst != ip("10.0.0.5") || len(r.raw) > max(300, len(tt.message)) {
				t.Errorf("reply of %d bytes to %v: %s", len(r.raw), r.dst, r.msg.Summary())
			}
			if s.Counters().Bootp != 1 {
				t.Errorf("counters %+v", s.Counters())
			}
		})
	}

	known := bootpRequest(300)
	copy(known[12:16], []byte{10, 0, 0, 7})
	r := ask(t, newServer(t, nil), wire(ip("10.0.0.7"), limitedBroadcast, known))
	if r.dst != ip("10.0.0.7") || !r.msg.YourIPAddr.IsUnspecified() {
		t.Errorf("RFC 951 3 client that knows its address: reply to %v: %s", r.dst, r.msg.Summary())
	}
}

func TestInputChecks(t *testing.T) {
	const (
		l3  = header.EthLen
		udp = l3 + header.IPv4Len
		msg = udp + header.UDPLen
	)
	good := broadcast(discover(t))
	// edit changes a good DISCOVER and repairs the IPv4 header checksum.
	edit := func(f func(b []byte)) []byte {
		b := append([]byte(nil), good...)
		f(b)
		b[l3+10], b[l3+11] = 0, 0
		be.PutUint16(b[l3+10:], ^header.Sum(b[l3:udp], 0))
		return b
	}
	tests := []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"unchanged", edit(func([]byte) {}), true},
		{"padding behind the packet", append(edit(func([]byte) {}), 0, 0), true},
		{"UDP checksum left to the network card", edit(func(b []byte) { b[udp+6]++ }), true},
		{"any source port", edit(func(b []byte) { b[udp] = 9 }), true},
		{"directed broadcast", edit(func(b []byte) { copy(b[l3+16:], []byte{10, 0, 0, 255}) }), true},
		{"to our address", edit(func(b []byte) { copy(b[l3+16:], []byte{10, 0, 0, 1}) }), true},
		{"to another address", edit(func(b []byte) { copy(b[l3+16:], []byte{10, 0, 0, 2}) }), false},
		{"frame to another station", edit(func(b []byte) { b[0] = 0x52 }), false},
		{"IPv4 header checksum", func() []byte {
			b := append([]byte(nil), good...)
			b[l3+10]++
			return b
		}(), false},
		{"IHL", edit(func(b []byte) { b[l3] = 0x44 }), false},
		{"first fragment", edit(func(b []byte) { b[l3+6] = 0x20 }), false},
		{"later fragment", edit(func(b []byte) { b[l3+7] = 1 }), false},
		{"total length beyond the frame", edit(func(b []byte) { b[l3+2]++ }), false},
		{"UDP length beyond the packet", edit(func(b []byte) { b[udp+4]++ }), false},
		{"UDP length below the header", edit(func(b []byte) { b[udp+4], b[udp+5] = 0, 7 }), false},
		{"other port", edit(func(b []byte) { b[udp+3] = 68 }), false},
		{"TCP", edit(func(b []byte) { b[l3+9] = header.ProtoTCP }), false},
		{"message shorter than its header", edit(func(b []byte) { b[udp+4], b[udp+5] = 0, 8+sizeHeader-1 }), false},
		{"reply", edit(func(b []byte) { b[msg] = 2 }), false},
		{"hardware type", edit(func(b []byte) { b[msg+1] = 6 }), false},
		{"hardware length", edit(func(b []byte) { b[msg+2] = 16 }), false},
		{"hardware length beyond the field", edit(func(b []byte) { b[msg+2] = 255 }), false},
		{"group hardware address", edit(func(b []byte) { b[msg+28] = 0xff }), false},
		{"zero hardware address", edit(func(b []byte) { clear(b[msg+28 : msg+34]) }), false},
		{"relayed", edit(func(b []byte) { b[msg+24] = 10 }), false},
		{"empty", nil, false},
		{"cut", good[:100], false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply, ok := newServer(t, nil).Handle([]byte{1}, tt.frame)
			if ok != tt.want || !ok && len(reply) != 1 {
				t.Errorf("answered = %v with %d bytes, want %v", ok, len(reply), tt.want)
			}
		})
	}
}

func TestOptionChecks(t *testing.T) {
	// with is a message with these raw options.
	with := func(opts ...byte) []byte {
		b := append(bootpRequest(sizeHeader), cookie[:]...)
		return append(b, opts...)
	}
	overloaded := with(52, 1, 3, 255)
	copy(overloaded[offFile:], []byte{53, 1, 1, 255})
	copy(overloaded[offSname:], []byte{61, 3, 1, 2, 3, 255})
	broken := with(52, 1, 1, 255)
	copy(broken[sizeHeader-2:], []byte{53, 9})

	tests := []struct {
		name    string
		message []byte
		want    dhcpv4.MessageType
		answer  bool
	}{
		{"type in odd order", with(55, 1, 1, 0, 0, 53, 1, 1, 255), dhcpv4.MessageTypeOffer, true},
		{"no end mark", with(53, 1, 1), dhcpv4.MessageTypeOffer, true},
		{"RFC 3396 request list in two pieces", with(55, 1, 6, 53, 1, 1, 55, 1, 3, 255), dhcpv4.MessageTypeOffer, true},
		{"RFC 2132 9.3 overload", overloaded, dhcpv4.MessageTypeOffer, true},
		{"overload broken", broken, 0, false},
		{"overload of wrong length", with(53, 1, 1, 52, 2, 1, 1, 255), 0, false},
		{"option beyond the end", with(53, 1, 1, 61, 200, 1), 0, false},
		{"type of wrong length", with(53, 2, 1, 1, 255), 0, false},
		{"type of no length", with(53, 0, 255), 0, false},
		{"server's type", with(53, 1, 2, 255), 0, false},
		{"unknown type", with(53, 1, 99, 255), 0, false},
		{"requested address of wrong length", with(53, 1, 3, 50, 3, 10, 0, 0, 255), 0, false},
		{"server identifier of wrong length", with(53, 1, 3, 54, 1, 10, 50, 4, 10, 0, 0, 5, 255), 0, false},
		{"release without a server identifier", with(53, 1, 7, 255), 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, nil)
			b, ok := s.Handle(nil, wire(netip.IPv4Unspecified(), limitedBroadcast, tt.message))
			if ok != tt.answer {
				t.Fatalf("answered = %v, want %v", ok, tt.answer)
			}
			if ok && decode(t, b).msg.MessageType() != tt.want {
				t.Errorf("got %v, want %v", decode(t, b).msg.MessageType(), tt.want)
			}
			if !ok && s.Counters() != (Counters{Ignored: 1}) {
				t.Errorf("counters %+v", s.Counters())
			}
		})
	}
	if _, ok := newServer(t, nil).Handle(nil, wire(netip.IPv4Unspecified(), limitedBroadcast, with(make([]byte, maxMessage)...))); ok {
		t.Error("oversize message answered")
	}
}

func TestNewRefuses(t *testing.T) {
	tests := map[string]func(*Config){
		"no MAC":             func(c *Config) { c.MAC = header.MAC{} },
		"group MAC":          func(c *Config) { c.MAC = header.Broadcast },
		"no server":          func(c *Config) { c.Server = netip.Addr{} },
		"IPv6 server":        func(c *Config) { c.Server = ip("fe80::1") },
		"loopback server":    func(c *Config) { c.Server = ip("127.0.0.1") },
		"no address":         func(c *Config) { c.Addr = netip.Prefix{} },
		"multicast address":  func(c *Config) { c.Addr = netip.MustParsePrefix("224.0.0.5/24") },
		"no subnet":          func(c *Config) { c.Addr = netip.MustParsePrefix("10.0.0.5/0") },
		"IPv6 address":       func(c *Config) { c.Addr = netip.MustParsePrefix("2001:db8::5/64") },
		"unspecified router": func(c *Config) { c.Router = ip("0.0.0.0") },
		"long host name":     func(c *Config) { c.Hostname = strings.Repeat("h", 256) },
		"RFC 2132 5.1 MTU":   func(c *Config) { c.MTU = 67 },
		"short lease":        func(c *Config) { c.Lease = time.Second },
		"long lease":         func(c *Config) { c.Lease = InfiniteLease + time.Second },
	}
	for name, edit := range tests {
		c := Config{MAC: ourMAC, Server: ip("10.0.0.1"), Addr: netip.MustParsePrefix("10.0.0.5/24")}
		if _, err := New(c); err != nil {
			t.Fatal(err)
		}
		edit(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDHCP4(f *testing.F) {
	f.Add(broadcast(discover(f)))
	f.Add(broadcast(discover(f, dhcpv4.WithBroadcast(true), dhcpv4.WithGeneric(dhcpv4.OptionRapidCommit, nil))))
	f.Add(broadcast(requestOf(f, "10.0.0.1", "10.0.0.5", "")))
	f.Add(broadcast(requestOf(f, "", "10.0.0.6", "")))
	f.Add(wire(ip("10.0.0.5"), ip("10.0.0.1"), requestOf(f, "", "", "10.0.0.5").ToBytes()))
	f.Add(broadcast(must(f)(dhcpv4.NewInform(guestHW, []byte{10, 0, 0, 9}))))
	f.Add(wire(netip.IPv4Unspecified(), limitedBroadcast, bootpRequest(300)))
	s := newServer(f, func(c *Config) {
		full(c)
		c.Router = ip("192.0.2.1")
	})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > 34 { // let it get behind the header checksum
			frame = append([]byte(nil), frame...)
			frame[24], frame[25] = 0, 0
			be.PutUint16(frame[24:], ^header.Sum(frame[14:34], 0))
		}
		b, ok := s.Handle(nil, frame)
		if !ok {
			return
		}
		r := decode(t, b)
		if y := r.msg.YourIPAddr.String(); y != "10.0.0.5" && y != "0.0.0.0" {
			t.Fatalf("gave away %s", y)
		}
		if r.bytes > 1472 || r.msg.MessageType() != 0 && r.codes[0] != 53 {
			t.Fatalf("bad reply of %d bytes: %s", r.bytes, r.msg.Summary())
		}
	})
}
