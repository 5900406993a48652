package dhcp4

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
)

// TestFQDN is RFC 4702 section 4: the name comes in the form that the client
// uses, and the flags say that nobody updates any DNS.
func TestFQDN(t *testing.T) {
	const wireName = "\x02vm\x01a\x07example\x00"
	tests := []struct {
		name   string
		client []byte // its option 81
		want   string
	}{
		{"client without one", nil, "\x0c\xff\xff" + wireName},
		{"wire form", []byte{4, 0, 0, 1, 'x', 0}, "\x0c\xff\xff" + wireName},
		{"wire form, wants updates", []byte{5, 0, 0}, "\x0e\xff\xff" + wireName},
		{"text form", []byte{0, 0, 0, 'x'}, "\x08\xff\xffvm.a.example"},
		{"text form, wants updates", []byte{1, 0, 0, 'x'}, "\x0a\xff\xffvm.a.example"},
		{"cut", []byte{1}, "\x0a\xff\xffvm.a.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, func(c *Config) { c.FQDN = "vm.a.example." })
			m := discover(t)
			if tt.client != nil {
				m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionFQDN, tt.client))
			}
			if diff := cmp.Diff(tt.want, string(ask(t, s, broadcast(m)).msg.Options.Get(dhcpv4.OptionFQDN))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	long := strings.Repeat("a23456789.", 24) + "example12345"
	s := newServer(t, func(c *Config) { c.FQDN = long })
	r := ask(t, s, broadcast(discover(t, dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(1500)))))
	if got := r.msg.Options.Get(dhcpv4.OptionFQDN); len(got) != len(long)+5 {
		t.Errorf("RFC 3396 name of %d bytes arrives as option of %d", len(long), len(got))
	}
}

func TestDomainName(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Config)
		want string
	}{
		{"of the guest's name", func(c *Config) { c.FQDN, c.Search = "vm.a.example", []string{"b.example"} }, "a.example"},
		{"of the search list", func(c *Config) { c.FQDN, c.Search = "vm", []string{"b.example", "c.example"} }, "b.example"},
		{"none", nil, ""},
	}
	for _, tt := range tests {
		if got := ask(t, newServer(t, tt.edit), broadcast(prl(t, 15))).msg.DomainName(); got != tt.want {
			t.Errorf("RFC 2132 3.17 %s: got %q, want %q", tt.name, got, tt.want)
		}
		if ask(t, newServer(t, tt.edit), broadcast(prl(t, 1))).msg.Options.Has(dhcpv4.OptionDomainName) {
			t.Errorf("%s: sent without being asked for", tt.name)
		}
	}
}

func TestBoot(t *testing.T) {
	const url = "http://192.0.2.7/boot.efi"
	tests := []struct {
		name  string
		boot  Boot
		class string
		asks  []uint8
		want  []string // siaddr, file, options 60, 66, 67
	}{
		{"nothing configured", Boot{}, "PXEClient:Arch:00000", []uint8{66, 67}, []string{"0.0.0.0", "", "", "", ""}},
		{"PXE", Boot{File: "pxelinux.0", Server: ip("192.0.2.7")}, "PXEClient:Arch:00000", []uint8{66, 67}, []string{
			"192.0.2.7", "pxelinux.0", "", "192.0.2.7", "pxelinux.0",
		}},
		{"the gateway itself, options not asked for", Boot{File: "x"}, "", []uint8{1}, []string{"10.0.0.1", "x", "", "", ""}},
		{"HTTP boot", Boot{File: url}, "HTTPClient:Arch:00016:UNDI:003001", []uint8{67}, []string{"10.0.0.1", url, "HTTPClient", "", url}},
		{"iPXE", Boot{File: url}, "PXEClient:Arch:00007", []uint8{67}, []string{"10.0.0.1", url, "", "", url}},
		{"HTTP boot of a plain file", Boot{File: "x"}, "HTTPClient", []uint8{67}, []string{"10.0.0.1", "x", "", "", "x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := prl(t, tt.asks...)
			if tt.class != "" {
				m.UpdateOption(dhcpv4.OptClassIdentifier(tt.class))
			}
			r := ask(t, newServer(t, func(c *Config) { c.Boot = tt.boot }), broadcast(m)).msg
			opt := func(code dhcpv4.OptionCode) string { return string(r.Options.Get(code)) }
			got := []string{
				r.ServerIPAddr.String(), r.BootFileName, opt(dhcpv4.OptionClassIdentifier),
				opt(dhcpv4.OptionTFTPServerName), opt(dhcpv4.OptionBootfileName),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("RFC 2131 2 (-want +got):\n%s", diff)
			}
		})
	}
	s := newServer(t, func(c *Config) { c.Boot.File = strings.Repeat("f", maxFile) })
	if r := ask(t, s, wire(ip("0.0.0.0"), limitedBroadcast, bootpRequest(300))); len(r.msg.BootFileName) != maxFile {
		t.Errorf("BOOTP client got the file %q", r.msg.BootFileName)
	}
	if r := ask(t, s, broadcast(requestOf(t, "", "10.0.0.9", ""))); r.msg.BootFileName != "" {
		t.Error("RFC 2131 table 3: boot file in a DHCPNAK")
	}
}

func TestNewRefusesNames(t *testing.T) {
	good := Config{MAC: ourMAC, Server: ip("10.0.0.1"), Addr: newPrefix("10.0.0.5/24")}
	bad := map[string]func(*Config){
		"name that is none":   func(c *Config) { c.FQDN = "a..b" },
		"long boot file":      func(c *Config) { c.Boot.File = strings.Repeat("f", maxFile+1) },
		"IPv6 boot server":    func(c *Config) { c.Boot.Server = ip("2001:db8::1") },
		"boot server's group": func(c *Config) { c.Boot.Server = ip("224.0.0.1") },
	}
	for name, edit := range bad {
		c := good
		edit(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestOptionOrderOfNames(t *testing.T) {
	s := newServer(t, func(c *Config) {
		full(c)
		c.FQDN, c.Boot.File = "vm.a.example", "x"
	})
	r := ask(t, s, broadcast(prl(t, 67, 81, 66, 15)))
	if want := []uint8{53, 54, 51, 67, 81, 66, 15, 1, 3, 6, 26, 12, 119}; !slices.Equal(r.codes, want) {
		t.Errorf("RFC 2132 9.8 got %s", fmt.Sprint(r.codes))
	}
}
