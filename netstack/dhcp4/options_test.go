package dhcp4

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
)

// prl is a DISCOVER that asks for exactly these options.
func prl(t testing.TB, codes ...uint8) *dhcpv4.DHCPv4 {
	t.Helper()
	m := discover(t)
	m.Options.Del(dhcpv4.OptionParameterRequestList)
	if codes != nil {
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionParameterRequestList, codes))
	}
	return m
}

func full(c *Config) {
	c.Hostname = "guest"
	c.Search = []string{"a.example", "b.example."}
}

func TestOptionOrder(t *testing.T) {
	control := []uint8{53, 54, 51}
	tests := []struct {
		name string
		edit func(*Config)
		asks []uint8
		want []uint8
	}{
		{"none asked", full, nil, []uint8{1, 3, 6, 26, 12, 119}},
		{"RFC 2132 9.8 as asked, then the rest", full, []uint8{12, 119, 6}, []uint8{12, 119, 6, 1, 3, 26}},
		{"RFC 2132 3.3 mask before router", full, []uint8{6, 3, 1}, []uint8{6, 1, 3, 26, 12, 119}},
		{"RFC 2131 4.3.1 asked twice", full, []uint8{3, 3, 6, 6, 1}, []uint8{1, 3, 6, 26, 12, 119}},
		{"unknown ones are left out", full, []uint8{16, 42, 255, 0, 252, 1}, []uint8{1, 3, 6, 26, 12, 119}},
		{"broadcast and times only if asked", full, []uint8{28, 58, 59}, []uint8{28, 58, 59, 1, 3, 6, 26, 12, 119}},
		{"control options do not repeat", full, []uint8{51, 53, 54, 61, 80, 1}, []uint8{1, 3, 6, 26, 12, 119}},
		{
			"RFC 3442 routes before the router", func(c *Config) { c.Router = ip("10.9.9.9") }, nil,
			[]uint8{1, 121, 3, 6, 26},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ask(t, newServer(t, tt.edit), broadcast(prl(t, tt.asks...)))
			want := append(append([]uint8(nil), control...), tt.want...)
			if diff := cmp.Diff(want, r.codes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptionValues(t *testing.T) {
	s := newServer(t, full)
	r := ask(t, s, broadcast(prl(t, 28, 12, 119)))
	if got := r.msg.Options.Get(dhcpv4.OptionBroadcastAddress); string(got) != "\x0a\x00\x00\xff" {
		t.Errorf("RFC 2132 5.3 broadcast address %v", got)
	}
	if got := r.msg.HostName(); got != "guest" {
		t.Errorf("RFC 2132 3.14 host name %q", got)
	}
	if diff := cmp.Diff([]string{"a.example", "b.example"}, r.msg.DomainSearch().Labels); diff != "" {
		t.Errorf("RFC 3397 search list (-want +got):\n%s", diff)
	}

	id := []byte{1, 0x52, 0x54, 0, 0, 0, 1}
	m := requestOf(t, "", "10.0.0.9", "")
	m.UpdateOption(dhcpv4.OptClientIdentifier(id))
	if r := ask(t, s, broadcast(m)); !bytes.Equal(r.msg.Options.Get(dhcpv4.OptionClientIdentifier), id) {
		t.Errorf("RFC 6842 3 client identifier in a DHCPNAK: %v", r.codes)
	}
	if r := ask(t, s, broadcast(discover(t, dhcpv4.WithOption(dhcpv4.OptClientIdentifier(id))))); !bytes.Equal(r.msg.Options.Get(dhcpv4.OptionClientIdentifier), id) {
		t.Errorf("RFC 6842 3 client identifier in a DHCPOFFER: %v", r.codes)
	}
}

func TestRouterOutsideSubnet(t *testing.T) {
	tests := []struct {
		name   string
		addr   string
		router string
		want   string
	}{
		{"inside", "10.0.0.5/24", "10.0.0.1", ""},
		{"RFC 3442 outside", "10.0.0.5/24", "192.168.7.1", "192.168.7.1/32 0.0.0.0, 0.0.0.0/0 192.168.7.1"},
		{"RFC 3442 host address", "10.0.0.5/32", "10.0.0.1", "10.0.0.1/32 0.0.0.0, 0.0.0.0/0 10.0.0.1"},
		{"RFC 3021 point to point", "10.0.0.5/31", "10.0.0.4", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := ask(t, newServer(t, func(c *Config) {
				c.Addr, c.Router = netip.MustParsePrefix(tt.addr), ip(tt.router)
			}), broadcast(prl(t, 121, 3)))
			var got []string
			for _, route := range r.msg.ClasslessStaticRoute() {
				got = append(got, route.Dest.String()+" "+route.Router.String())
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
			if r.msg.Router()[0].String() != tt.router {
				t.Errorf("router %v", r.msg.Router())
			}
		})
	}
}

func TestLongSearchList(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("dept%d.corp.example", i))
	}
	tests := []struct {
		name     string
		maxSize  uint16 // option 57; 0: not sent
		mtu      uint16
		min, max int // size of the message
		pieces   int
	}{
		{"RFC 2131 2 no size given", 0, 0, 520, 548, 2},
		{"RFC 2132 9.10 size below the minimum", 100, 0, 520, 548, 2},
		{"RFC 3396 size 1500", 1500, 0, 1440, 1472, 5},
		{"size beyond the link", 65535, 0, 1440, 1472, 5},
		{"size beyond the MTU", 1500, 800, 740, 772, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := prl(t, 119, 1, 3, 6)
			if tt.maxSize != 0 {
				m.UpdateOption(dhcpv4.OptMaxMessageSize(tt.maxSize))
			}
			r := ask(t, newServer(t, func(c *Config) { c.Search, c.MTU = names, tt.mtu }), broadcast(m))
			if r.bytes < tt.min || r.bytes > tt.max {
				t.Errorf("message of %d bytes, want %d to %d", r.bytes, tt.min, tt.max)
			}
			got := r.msg.DomainSearch()
			if got == nil || len(got.Labels) == 0 {
				t.Fatal("no search list")
			}
			if diff := cmp.Diff(names[:len(got.Labels)], got.Labels); diff != "" {
				t.Errorf("RFC 3397 names, cut at a border (-want +got):\n%s", diff)
			}
			if n := bytes.Count(r.codes, []byte{119}); n != tt.pieces {
				t.Errorf("RFC 3396: %d pieces, want %d", n, tt.pieces)
			}
			if len(r.msg.Router()) != 1 || len(r.msg.DNS()) != 2 {
				t.Error("the search list has pushed other options out")
			}
		})
	}
}

func TestOptionsThatDoNotFitAreLeftOut(t *testing.T) {
	s := newServer(t, func(c *Config) {
		c.Hostname = strings.Repeat("h", 255)
		c.Search = []string{"a.example"}
		for i := range 100 {
			c.DNS = append(c.DNS, netip.AddrFrom4([4]byte{10, 1, 1, byte(i + 1)}))
		}
	})
	r := ask(t, s, broadcast(prl(t)))
	if diff := cmp.Diff([]uint8{53, 54, 51, 1, 3, 6, 26, 119}, r.codes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(r.msg.DNS()); n != maxDNS {
		t.Errorf("%d resolvers", n)
	}
	if r.bytes > 548 {
		t.Errorf("message of %d bytes", r.bytes)
	}
}

func TestNoLoopbackResolvers(t *testing.T) {
	r := ask(t, newServer(t, func(c *Config) {
		c.DNS = []netip.Addr{ip("127.0.0.53"), ip("::1"), ip("2001:db8::1"), ip("0.0.0.0"), ip("192.0.2.1")}
	}), broadcast(discover(t)))
	if got := r.msg.DNS(); len(got) != 1 || got[0].String() != "192.0.2.1" {
		t.Errorf("RFC 1122 3.2.1.3 (g): resolvers %v", got)
	}
}
