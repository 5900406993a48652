package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

var cmpNet = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func ip(s string) netip.Addr    { return netip.MustParseAddr(s) }
func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func ips(list string) []netip.Addr {
	var out []netip.Addr
	for s := range strings.FieldsSeq(list) {
		out = append(out, ip(s))
	}
	return out
}

// office is an ordinary host; bare has nothing at all.
func office() hostconf.State {
	return hostconf.State{
		V4:        hostconf.Family{Interface: "eth0", MTU: 1500, Addr: pfx("192.0.2.5/24"), DefaultRoute: true, Gateway: ip("192.0.2.1")},
		V6:        hostconf.Family{Interface: "eth0", MTU: 1500, Addr: pfx("2001:db8:7::5/64"), DefaultRoute: true, Gateway: ip("fe80::aa")},
		HasIPv6:   true,
		Resolvers: ips("192.0.2.53 2001:db8:7::53"),
		Search:    []string{"corp.example"},
		ULA:       pfx("fd12:3456:789a::/64"),
	}
}

func bare() hostconf.State {
	return hostconf.State{HasIPv6: true, Resolvers: ips("127.0.0.1"), ULA: pfx("fd12:3456:789a::/64"), Warning: "no network"}
}

func parse(t *testing.T, args string) options.Options {
	t.Helper()
	o, err := options.Parse(strings.Fields(args))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestMakeWholePlan(t *testing.T) {
	o := parse(t, "-t 2222:22 -H vm1 --no-udp --outbound 192.0.2.5 --map-host-loopback 192.0.2.200")
	got, warnings, err := Make(o, office())
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	want := Plan{
		GatewayMAC: DefaultMAC(), MTU: 1500, AnnounceMTU: true,
		IPv4: IPv4{Enabled: true, Guest: ip("192.0.2.5"), Gateway: ip("192.0.2.1"), PrefixLen: 24},
		IPv6: IPv6{
			Enabled: true, Lease: ip("2001:db8:7::5"), Prefix: pfx("2001:db8:7::/64"),
			Gateway: ip("fe80::aa"), HostRoute: true,
		},
		DNS: ips("192.0.2.53 2001:db8:7::53"), Search: []string{"corp.example"}, Hostname: "vm1",
		MapHostLoopback4: ip("192.0.2.200"), Outbound4: ip("192.0.2.5"),
		Forwards: []forward.Rule{{Proto: forward.TCP, FirstPort: 2222, LastPort: 2222, TargetFirstPort: 22}},
		NoUDP:    true,
	}
	if d := cmp.Diff(want, got, cmpNet); d != "" {
		t.Fatalf("plan (-want +got):\n%s", d)
	}
}

func TestIPv4(t *testing.T) {
	host := func(addr, gw, peer string) hostconf.State {
		s := office()
		s.V4 = hostconf.Family{Interface: "eth0", DefaultRoute: true, Addr: pfx(addr)}
		if gw != "" {
			s.V4.Gateway = ip(gw)
		}
		if peer != "" {
			s.V4.Peer = ip(peer)
		}
		return s
	}
	tests := []struct {
		name, args   string
		host         hostconf.State
		guest, gw    string
		bits         int
		gwIsOffLink  bool
		gwIsOurs     bool
		wantDisabled bool
	}{
		{name: "copied", host: office(), guest: "192.0.2.5", gw: "192.0.2.1", bits: 24},
		{name: "no network", host: bare(), guest: "169.254.2.1", gw: "169.254.2.2", bits: 16, gwIsOurs: true},
		{name: "switched off", args: "-6", host: office(), wantDisabled: true},
		{name: "tunnel without gateway", host: host("10.8.0.2/24", "", ""), guest: "10.8.0.2", gw: "10.8.0.1", bits: 24},
		{name: "tunnel's first address", host: host("10.8.0.1/24", "", ""), guest: "10.8.0.1", gw: "10.8.0.2", bits: 24},
		{name: "pair of a /31", host: host("10.8.0.0/31", "", ""), guest: "10.8.0.0", gw: "10.8.0.1", bits: 31},
		{name: "other end of a /31", host: host("10.8.0.1/31", "", ""), guest: "10.8.0.1", gw: "10.8.0.0", bits: 31},
		{name: "/32 without gateway", host: host("10.8.0.9/32", "", ""), guest: "10.8.0.9", gw: "169.254.2.2", bits: 32, gwIsOffLink: true, gwIsOurs: true},
		{name: "/32 with peer", host: host("10.8.0.9/32", "", "10.8.0.1"), guest: "10.8.0.9", gw: "10.8.0.1", bits: 32, gwIsOffLink: true},
		{name: "/32 with gateway", host: host("203.0.113.5/32", "172.31.1.1", ""), guest: "203.0.113.5", gw: "172.31.1.1", bits: 32, gwIsOffLink: true},
		{name: "the host's odd address", host: host("10.8.0.0/24", "10.8.0.1", ""), guest: "10.8.0.0", gw: "10.8.0.1", bits: 24},
		{name: "own address in the host's network", args: "-a 192.0.2.77", host: office(), guest: "192.0.2.77", gw: "192.0.2.1", bits: 24},
		{name: "own address is the host's gateway", args: "-a 192.0.2.1", host: office(), guest: "192.0.2.1", gw: "192.0.2.2", bits: 24},
		{name: "own network", args: "-a 10.0.2.15/24", host: office(), guest: "10.0.2.15", gw: "10.0.2.1", bits: 24, gwIsOurs: true},
		{name: "bare address, class A", args: "-a 10.0.2.15", host: office(), guest: "10.0.2.15", gw: "10.0.0.1", bits: 8, gwIsOurs: true},
		{name: "bare address, class B", args: "-a 172.16.0.9", host: bare(), guest: "172.16.0.9", gw: "172.16.0.1", bits: 16, gwIsOurs: true},
		{name: "bare address, class C", args: "-a 192.168.1.9", host: bare(), guest: "192.168.1.9", gw: "192.168.1.1", bits: 24, gwIsOurs: true},
		{name: "own mask", args: "-n 255.255.255.128", host: office(), guest: "192.0.2.5", gw: "192.0.2.1", bits: 25},
		{name: "mask that leaves the gateway out", args: "-n 30", host: host("192.0.2.5/24", "192.0.2.200", ""), guest: "192.0.2.5", gw: "192.0.2.200", bits: 30, gwIsOffLink: true},
		{name: "own gateway", args: "-g 192.0.2.254", host: office(), guest: "192.0.2.5", gw: "192.0.2.254", bits: 24},
		{name: "own gateway outside", args: "-g 198.51.100.1", host: office(), guest: "192.0.2.5", gw: "198.51.100.1", bits: 24, gwIsOffLink: true, gwIsOurs: true},
		{name: "own gateway without network", args: "-g 169.254.9.9", host: bare(), guest: "169.254.2.1", gw: "169.254.9.9", bits: 16, gwIsOurs: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _, err := Make(parse(t, tt.args), tt.host)
			if err != nil {
				t.Fatal(err)
			}
			want := IPv4{}
			if !tt.wantDisabled {
				want = IPv4{Enabled: true, Guest: ip(tt.guest), Gateway: ip(tt.gw), PrefixLen: tt.bits, OffLink: tt.gwIsOffLink, OwnGateway: tt.gwIsOurs}
			}
			if p.IPv4 != want {
				t.Fatalf("IPv4 = %+v, want %+v", p.IPv4, want)
			}
		})
	}
}

func TestIPv6(t *testing.T) {
	noKernel := office()
	noKernel.HasIPv6, noKernel.V6 = false, hostconf.Family{}
	narrow := office()
	narrow.V6.Addr, narrow.V6.Gateway = pfx("2001:db8:9:8:7::1/128"), ip("2001:db8::1")
	tests := []struct {
		name, args string
		host       hostconf.State
		want       IPv6
	}{
		{"copied", "", office(), IPv6{Enabled: true, Lease: ip("2001:db8:7::5"), Prefix: pfx("2001:db8:7::/64"), Gateway: ip("fe80::aa"), HostRoute: true}},
		{"no DHCPv6", "--no-dhcpv6", office(), IPv6{Enabled: true, Prefix: pfx("2001:db8:7::/64"), Gateway: ip("fe80::aa"), HostRoute: true}},
		{"no network", "", bare(), IPv6{Enabled: true, Lease: ip("fd12:3456:789a::2:1"), Prefix: pfx("fd12:3456:789a::/64"), Gateway: ip("fe80::1")}},
		{"switched off", "-4", office(), IPv6{}},
		{"not in the kernel", "", noKernel, IPv6{}},
		{"narrow prefix, global gateway", "", narrow, IPv6{Enabled: true, Lease: ip("2001:db8:9:8:7::1"), Prefix: pfx("2001:db8:9:8::/64"), Gateway: ip("fe80::1"), HostRoute: true}},
		{"own address", "-a fd00::9/48", office(), IPv6{Enabled: true, Guest: ip("fd00::9"), Lease: ip("fd00::9"), Prefix: pfx("fd00::/64"), Gateway: ip("fe80::aa"), HostRoute: true}},
		{"own gateway", "-g fe80::77", office(), IPv6{Enabled: true, Lease: ip("2001:db8:7::5"), Prefix: pfx("2001:db8:7::/64"), Gateway: ip("fe80::77"), HostRoute: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _, err := Make(parse(t, tt.args), tt.host)
			if err != nil {
				t.Fatal(err)
			}
			if p.IPv6 != tt.want {
				t.Fatalf("IPv6 = %+v, want %+v", p.IPv6, tt.want)
			}
		})
	}
}

func TestDNS(t *testing.T) {
	tests := []struct {
		name, args, resolvers string
		announced             string
		forward4, host4       string
		forward6, host6       string
	}{
		{name: "direct", resolvers: "192.0.2.53 2001:db8:7::53", announced: "192.0.2.53 2001:db8:7::53"},
		{name: "stub", resolvers: "127.0.0.53", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "127.0.0.53"},
		{name: "IPv6 stub", resolvers: "::1", announced: "fe80::aa", forward6: "fe80::aa", host6: "::1"},
		{name: "two stubs", resolvers: "127.0.0.1 127.0.0.53", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "127.0.0.1"},
		{name: "stub first, then direct", resolvers: "127.0.0.1 198.51.100.53", announced: "192.0.2.1 198.51.100.53", forward4: "192.0.2.1", host4: "127.0.0.1"},
		{name: "this machine by 0.0.0.0", resolvers: "0.0.0.0", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "127.0.0.1"},
		{name: "this machine by the shared address", resolvers: "192.0.2.5", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "192.0.2.5"},
		{name: "this machine by the shared IPv6 address", resolvers: "2001:db8:7::5", announced: "fe80::aa", forward6: "fe80::aa", host6: "2001:db8:7::5"},
		{name: "scoped", resolvers: "fe80::53%eth0", announced: "fe80::aa", forward6: "fe80::aa", host6: "fe80::53%eth0"},
		{name: "link-local without scope", resolvers: "fe80::53 192.0.2.53", announced: "192.0.2.53"},
		{name: "IPv4 link-local", resolvers: "169.254.169.253", announced: "169.254.169.253"},
		{name: "stub for an IPv6-only guest", args: "-6", resolvers: "127.0.0.53", announced: "fe80::aa", forward6: "fe80::aa", host6: "127.0.0.53"},
		{name: "IPv6 resolver for an IPv4-only guest", args: "-4", resolvers: "2001:db8:7::53", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "2001:db8:7::53"},
		{name: "both for an IPv4-only guest", args: "-4", resolvers: "2001:db8:7::53 192.0.2.53", announced: "192.0.2.53"},
		{name: "own list", args: "-D 198.51.100.1", resolvers: "127.0.0.53", announced: "198.51.100.1"},
		{name: "none", args: "-D none", resolvers: "127.0.0.53"},
		{name: "not announced", args: "--no-dhcp-dns", resolvers: "127.0.0.53", forward4: "192.0.2.1", host4: "127.0.0.53"},
		{name: "own forward address", args: "--dns-forward 192.0.2.99", resolvers: "127.0.0.53", announced: "192.0.2.99", forward4: "192.0.2.99", host4: "127.0.0.53"},
		{name: "own forward address, direct resolver", args: "--dns-forward 192.0.2.99", resolvers: "192.0.2.53", announced: "192.0.2.53", forward4: "192.0.2.99", host4: "192.0.2.53"},
		{name: "own forward address of the other family", args: "--dns-forward fd00::53", resolvers: "192.0.2.53", announced: "192.0.2.53", forward6: "fd00::53", host6: "192.0.2.53"},
		{name: "own host", args: "--dns-host 127.0.0.9", resolvers: "192.0.2.53", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "127.0.0.9"},
		{name: "own both, own list", args: "-D 198.51.100.1 --dns-forward 192.0.2.99 --dns-host 127.0.0.9", resolvers: "192.0.2.53", announced: "198.51.100.1", forward4: "192.0.2.99", host4: "127.0.0.9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := office()
			host.Resolvers = ips(tt.resolvers)
			p, _, err := Make(parse(t, tt.args), host)
			if err != nil {
				t.Fatal(err)
			}
			want := [][]netip.Addr{ips(tt.announced), ips(tt.forward4), ips(tt.host4), ips(tt.forward6), ips(tt.host6)}
			got := [][]netip.Addr{p.DNS, valid(p.DNSForward4), valid(p.DNSHost4), valid(p.DNSForward6), valid(p.DNSHost6)}
			if d := cmp.Diff(want, got, cmpNet); d != "" {
				t.Fatalf("announced, forward and host of both families (-want +got):\n%s", d)
			}
			for _, a := range p.DNS {
				if a.IsLoopback() || a.Zone() != "" {
					t.Errorf("%v is announced", a)
				}
			}
		})
	}
}

func valid(a netip.Addr) []netip.Addr {
	if !a.IsValid() {
		return nil
	}
	return []netip.Addr{a}
}

func TestLinkSearchAndForwards(t *testing.T) {
	tests := []struct {
		args  string
		check func(Plan) bool
	}{
		{"-m 1500", func(p Plan) bool { return p.MTU == 1500 && p.AnnounceMTU }},
		{"-m 0", func(p Plan) bool { return p.MTU == DefaultMTU && !p.AnnounceMTU }},
		{"-M 02:00:00:00:00:07", func(p Plan) bool { return p.GatewayMAC == [6]byte{2, 0, 0, 0, 0, 7} }},
		{"-S a.example", func(p Plan) bool { return len(p.Search) == 1 && p.Search[0] == "a.example" }},
		{"-S none", func(p Plan) bool { return p.Search == nil }},
		{"--no-dhcp-search", func(p Plan) bool { return p.Search == nil }},
		{"-t 80", func(p Plan) bool { return !p.Forwards[0].ListenAddr.IsValid() }},
		{"-t 80 -4", func(p Plan) bool { return p.Forwards[0].ListenAddr == ip("0.0.0.0") }},
		{"-t 80 -6", func(p Plan) bool { return p.Forwards[0].ListenAddr == ip("::") }},
		{"-u ::1/80", func(p Plan) bool { return p.Forwards[0].ListenAddr == ip("::1") }},
		{"", func(p Plan) bool {
			return !p.MapHostLoopback4.IsValid() && !p.MapHostLoopback6.IsValid() // off unless asked for
		}},
		{"--no-icmp", func(p Plan) bool { return p.NoICMP && p.NoNDP && p.NoRA && !p.NoDHCP }},
	}
	for _, tt := range tests {
		p, _, err := Make(parse(t, tt.args), office())
		if err != nil || !tt.check(p) {
			t.Errorf("%s: error %v, plan %+v", tt.args, err, p)
		}
	}
}

func TestMakeRefuses(t *testing.T) {
	noIPv6 := office()
	noIPv6.HasIPv6, noIPv6.V6 = false, hostconf.Family{}
	tests := []struct {
		args string
		host hostconf.State
		want string
	}{
		{"-6", noIPv6, "-6, --ipv6-only: the host's kernel has IPv6 switched off"},
		{"-a fd00::1", noIPv6, `-a, --address "fd00::1"`},
		{"-t ::1/80", noIPv6, `--tcp-ports "::1/80"`},
		{"-o fd00::1", noIPv6, `-o, --outbound "fd00::1"`},
		{"-a 10.0.0.0/24", office(), "the address of the network 10.0.0.0/24"},
		{"-a 10.0.0.255/24", office(), "the broadcast address of 10.0.0.0/24"},
		{"-n 32 -g 192.0.2.5", office(), `-g, --gateway "192.0.2.5": is the guest's own`},
		{"--map-host-loopback 192.0.2.5", office(), `--map-host-loopback "192.0.2.5": is the guest's own`},
		{"--dns-forward 192.0.2.5", office(), `--dns-forward "192.0.2.5": is the guest's own`},
		{"--dns-forward fd00::1 -a fd00::1", office(), `--dns-forward "fd00::1": is the guest's own`},
	}
	for _, tt := range tests {
		_, _, err := Make(parse(t, tt.args), tt.host)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestAtMostOneWarning(t *testing.T) {
	if _, w, err := Make(options.Options{}, bare()); err != nil || len(w) != 1 {
		t.Errorf("warnings %q, error %v", w, err)
	}
	if _, w, err := Make(options.Options{}, office()); err != nil || len(w) != 0 {
		t.Errorf("warnings %q, error %v", w, err)
	}
}

// TestMTUIsTheUplinks: the guest's link is as large as the host's.
func TestMTUIsTheUplinks(t *testing.T) {
	for _, tt := range []struct{ v4, v6, want int }{
		{0, 0, 1500},
		{1500, 1500, 1500},
		{9000, 9000, 9000},
		{9000, 1420, 1420},
		{1400, 0, 1400},
		{0, 1400, 1400},
		{576, 576, 1280},
		{65536, 65536, 65520},
	} {
		h := office()
		h.V4.MTU, h.V6.MTU = tt.v4, tt.v6
		p, _, err := Make(parse(t, ""), h)
		if err != nil {
			t.Fatal(err)
		}
		if p.MTU != tt.want || !p.AnnounceMTU {
			t.Errorf("uplinks of %d and %d bytes: MTU %d, announced %v, want %d", tt.v4, tt.v6, p.MTU, p.AnnounceMTU, tt.want)
		}
	}
}

// TestEveryPortLeavesOutgoing: "all" is not to take the ports that the host
// gives to connections of its own; ports that are named are taken.
func TestEveryPortLeavesOutgoing(t *testing.T) {
	host := office()
	host.LocalPorts = [2]uint16{32768, 60999}
	p, _, err := Make(parse(t, "-4 -t all,~22 -t 40000"), host)
	if err != nil {
		t.Fatal(err)
	}
	var specs []string
	for _, r := range p.Forwards {
		specs = append(specs, r.Spec())
	}
	if got, want := strings.Join(specs, " "), "0.0.0.0/all,~22,~32768-60999 0.0.0.0/40000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMappings(t *testing.T) {
	p, _, err := Make(parse(t, "--map-guest-addr 192.0.2.99 --map-guest-addr fd00::9 --outbound-if4 eth0 --outbound-if6 eth1 --freebind"), office())
	if err != nil {
		t.Fatal(err)
	}
	if p.MapGuest4 != ip("192.0.2.99") || p.MapGuest6 != ip("fd00::9") || p.OutboundIf4 != "eth0" || p.OutboundIf6 != "eth1" || !p.FreeBind {
		t.Errorf("%+v", p)
	}
	noIPv6 := office()
	noIPv6.HasIPv6 = false
	if _, _, err := Make(parse(t, "--map-guest-addr fd00::9"), noIPv6); err == nil || !strings.Contains(err.Error(), `--map-guest-addr "fd00::9"`) {
		t.Errorf("without IPv6: %v", err)
	}
}
