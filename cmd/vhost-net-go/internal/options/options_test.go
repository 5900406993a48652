package options

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

var cmpOptions = cmp.Options{
	cmp.AllowUnexported(Options{}),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, addr(s))
	}
	return out
}

func rule(p forward.Proto, host, guest uint16) forward.Rule {
	return forward.Rule{Proto: p, FirstPort: host, LastPort: host, TargetFirstPort: guest}
}

// defaults is what an empty command line means.
func defaults() Options {
	return Options{FD: -1, ReconnectMs: DefaultReconnectMs, GSOMaxBytes: DefaultGSOMaxBytes, SocketMode: DefaultSocketMode, LogBytes: DefaultLogBytes}
}

func everything(p forward.Proto, except ...forward.Range) forward.Rule {
	return forward.Rule{Proto: p, FirstPort: 1, LastPort: 65535, TargetFirstPort: 1, BestEffort: true, Except: except}
}

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		want func(*Options)
	}{
		{"", func(*Options) {}},
		{"-s /s", func(o *Options) { o.SocketPath = "/s" }},
		{"--socket /s", func(o *Options) { o.SocketPath = "/s" }},
		{"--socket-path=/s", func(o *Options) { o.SocketPath = "/s" }},
		{"-s /a -s /b", func(o *Options) { o.SocketPath = "/b" }},
		{"-F 3", func(o *Options) { o.FD, o.OneOff = 3, true }},
		{"--fd 0", func(o *Options) { o.FD, o.OneOff = 0, true }},
		{"-1", func(o *Options) { o.OneOff = true }},
		{"--one-off -f --vhost-user -e", func(o *Options) {
			o.OneOff = true
			o.Notes = []string{"--stderr has no effect: messages go to standard error in the foreground, whatever is asked for"}
		}},
		{"-1f", func(o *Options) { o.OneOff = true }},
		{"--queues 4", func(o *Options) { o.Queues = 4 }},
		{"--client -s /s --reconnect-ms 100", func(o *Options) { o.Client, o.SocketPath, o.ReconnectMs = true, "/s", 100 }},
		{"--socket-mode 0660", func(o *Options) { o.SocketMode = 0o660 }},
		{"-P /p -l /l --log-size 50000", func(o *Options) { o.PidFile, o.LogFile, o.LogBytes = "/p", "/l", 50000 }},
		{"-d", func(o *Options) { o.Level = Debug }},
		{"--trace -d", func(o *Options) { o.Level = Trace }},
		{"-d -q", func(o *Options) { o.Level = Quiet }},
		{"-q -d", func(o *Options) { o.Level = Debug }},
		{"-t 22", func(o *Options) { o.Forwards = []forward.Rule{rule(forward.TCP, 22, 22)} }},
		{"-t none -u none", func(*Options) {}},
		{"-u 53:5353 -t 80 --tcp-ports 2222:22", func(o *Options) {
			o.Forwards = []forward.Rule{rule(forward.TCP, 80, 80), rule(forward.TCP, 2222, 22), rule(forward.UDP, 53, 5353)}
		}},
		{"-a 192.0.2.5", func(o *Options) { o.Addr4 = addr("192.0.2.5") }},
		{"-a 192.0.2.5/24 -a 2001:db8::5/64", func(o *Options) {
			o.Addr4, o.PrefixLen4, o.Addr6 = addr("192.0.2.5"), 24, addr("2001:db8::5")
		}},
		{"-a 192.0.2.5 -n 255.255.0.0", func(o *Options) { o.Addr4, o.PrefixLen4 = addr("192.0.2.5"), 16 }},
		{"-n 28", func(o *Options) { o.PrefixLen4 = 28 }},
		{"-g 192.0.2.1 -g fe80::5 -g 192.0.2.2", func(o *Options) { o.Gateway4, o.Gateway6 = addr("192.0.2.2"), addr("fe80::5") }},
		{"-m 1500", func(o *Options) { o.MTU, o.MTUSet = 1500, true }},
		{"-m 68 -4", func(o *Options) { o.MTU, o.MTUSet, o.IPv4Only = 68, true, true }},
		{"-m 0", func(o *Options) { o.MTUSet = true }},
		{"-M 02:00:00:00:00:01", func(o *Options) { o.MAC = [6]byte{2, 0, 0, 0, 0, 1} }},
		{"-D 192.0.2.53 -D 2001:db8::53", func(o *Options) { o.DNS = addrs("192.0.2.53", "2001:db8::53") }},
		{"-D 192.0.2.53 -D none", func(o *Options) { o.NoDNS = true }},
		{"-D none -D 192.0.2.53", func(o *Options) { o.DNS = addrs("192.0.2.53") }},
		{"-S a.example -S b.example.", func(o *Options) { o.Search = []string{"a.example", "b.example"} }},
		{"-S a.example,b.example", func(o *Options) { o.Search = []string{"a.example", "b.example"} }},
		{"-S none", func(o *Options) { o.NoSearch = true }},
		{"-4", func(o *Options) { o.IPv4Only = true }},
		{"-6", func(o *Options) { o.IPv6Only = true }},
		{"-i eth0", func(o *Options) { o.Interface = "eth0" }},
		{"-o 192.0.2.9 --outbound 2001:db8::9", func(o *Options) { o.Outbound4, o.Outbound6 = addr("192.0.2.9"), addr("2001:db8::9") }},
		{"-o 127.0.0.1", func(o *Options) { o.Outbound4 = addr("127.0.0.1") }},
		{"-H vm1.example", func(o *Options) { o.Hostname = "vm1.example" }},
		{"--map-host-loopback 192.0.2.1", func(o *Options) { o.MapHostLoopback4 = addr("192.0.2.1") }},
		{"--map-host-loopback 192.0.2.1 --map-host-loopback none --no-map-gw", func(*Options) {}},
		{"--dns-forward 192.0.2.53 --dns-host 127.0.0.53", func(o *Options) { o.DNSForward4, o.DNSHost4 = addr("192.0.2.53"), addr("127.0.0.53") }},
		{"--dns-forward 2001:db8::53 --dns-host fe80::1%eth0", func(o *Options) {
			o.DNSForward6, o.DNSHost6 = addr("2001:db8::53"), addr("fe80::1%eth0")
		}},
		{"--no-tcp --no-udp --no-dhcp --no-dhcpv6 --no-ra", func(o *Options) { o.NoTCP, o.NoUDP, o.NoDHCP, o.NoDHCP6, o.NoRA = true, true, true, true, true }},
		{"--no-icmp", func(o *Options) { o.NoICMP, o.NoNDP, o.NoRA = true, true, true }},
		{"--no-big-tcp", func(o *Options) { o.NoBigTCP = true }},
		{"--gso-max-size 524288", func(o *Options) { o.GSOMaxBytes = 524288 }},
		{"--no-ndp", func(o *Options) { o.NoNDP, o.NoRA = true, true }},
		{"-t all -t 8080:80 -u ~53", func(o *Options) {
			o.Forwards = []forward.Rule{everything(forward.TCP), rule(forward.TCP, 8080, 80), everything(forward.UDP, forward.Range{First: 53, Last: 53})}
		}},
		{"-t 0:22 -t %eth0/80 -t %eth1/80 -t 127.0.0.1/0:22 --freebind", func(o *Options) {
			o.FreeBind = true
			eth0, eth1, lo := rule(forward.TCP, 80, 80), rule(forward.TCP, 80, 80), rule(forward.TCP, 0, 22)
			eth0.Interface, eth1.Interface, lo.ListenAddr = "eth0", "eth1", addr("127.0.0.1")
			o.Forwards = []forward.Rule{rule(forward.TCP, 0, 22), eth0, eth1, lo}
		}},
		{"--tx-batch-frames 16 --flush-frames 1024", func(o *Options) { o.TxBatchFrames, o.FlushFrames = 16, 1024 }},
		{"--runas nobody:nogroup --stats 5", func(o *Options) { o.RunAs, o.StatsSeconds = "nobody:nogroup", 5 }},
		{"--outbound-if4 eth0 --outbound-if6 wg0", func(o *Options) { o.OutboundIf4, o.OutboundIf6 = "eth0", "wg0" }},
		{"--map-guest-addr 192.0.2.9 --map-guest-addr fd00::9", func(o *Options) { o.MapGuest4, o.MapGuest6 = addr("192.0.2.9"), addr("fd00::9") }},
		{"--map-guest-addr 192.0.2.9 --map-guest-addr none", func(*Options) {}},
		{"--chroot-fallback --repair-path /r --migrate-exit", func(o *Options) {
			o.Notes = []string{
				"--chroot-fallback has no effect: there is no pivot_root that could fail",
				"--repair-path has no effect: there is no migration, and so no socket for passt-repair",
				"--migrate-exit has no effect: there is no migration",
			}
		}},
		{"--no-dhcp-dns --no-dhcp-search", func(o *Options) { o.NoDHCPDNS, o.NoDHCPSearch = true, true }},
		// What libvirt's passt backend passes.
		{"--vhost-user --one-off --socket /s --pid /p --tcp-ports 5301:5201", func(o *Options) {
			o.OneOff, o.SocketPath, o.PidFile = true, "/s", "/p"
			o.Forwards = []forward.Rule{rule(forward.TCP, 5301, 5201)}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			got, err := Parse(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			tt.want(&want)
			if d := cmp.Diff(want, got, cmpOptions); d != "" {
				t.Fatalf("options (-want +got):\n%s", d)
			}
		})
	}
}

// Each error must name the option, quote the value and state the rule.
func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxSocketPath+1)
	tests := []struct {
		args string
		want []string
	}{
		{"--nonsense", []string{"--nonsense", "no such option"}},
		{"-X", []string{"-X", "no such option"}},
		{"-s", []string{"-s, --socket", "value is needed"}},
		{"-s " + long, []string{"-s, --socket", long, "at most 107"}},
		{"eth0", []string{`"eth0"`, "unexpected argument"}},
		{"--=", []string{"not an option"}},
		{"-f=no", []string{"-f, --foreground", "takes no value"}},
		{"-F 1", []string{"-F, --fd", `"1"`, "0, or 3"}},
		{"-F -1", []string{"-F, --fd", `"-1"`, "0, or 3"}},
		{"-F x", []string{"-F, --fd", `"x"`}},
		{"-F 3 -s /s", []string{"--fd 3", `--socket "/s"`, "one frontend"}},
		{"-F 3 --client", []string{"--fd 3", "--client"}},
		{"-F 3 --socket-mode 0600", []string{"--socket-mode", `"0600"`, "--fd 3"}},
		{"--client", []string{"--client", "needs --socket"}},
		{"--client -s /s --socket-mode 0600", []string{"--socket-mode", `"0600"`, "--client"}},
		{"--reconnect-ms 5", []string{"--reconnect-ms", "needs --client"}},
		{"--queues 17", []string{"--queues", `"17"`, "1 to 16 (queue pairs)"}},
		{"--reconnect-ms 0", []string{"--reconnect-ms", `"0"`, "1 to 3600000"}},
		{"--socket-mode 999", []string{"--socket-mode", `"999"`, "octal"}},
		{"--socket-mode 1777", []string{"--socket-mode", `"1777"`, "0777"}},
		{"--log-size 100 -l /l", []string{"--log-size", `"100"`, "40960"}},
		{"--log-size 50000", []string{"--log-size", `"50000"`, "needs --log-file"}},
		{"--gso-max-size 65535", []string{"--gso-max-size", `"65535"`, "65536"}},
		{"--gso-max-size 524289", []string{"--gso-max-size", `"524289"`, "524288"}},
		{"--gso-max-size 100000 --no-big-tcp", []string{"--gso-max-size", "--no-big-tcp"}},
		{"-m 67", []string{"-m, --mtu", `"67"`, "68 to 65521"}},
		{"-m 65522", []string{"-m, --mtu", `"65522"`, "68 to 65521"}},
		{"-m 1279", []string{"-m, --mtu", `"1279"`, "1280", "--ipv4-only"}},
		{"-m 1279 -6", []string{"-m, --mtu", `"1279"`, "1280"}},
		{"-M 01:00:00:00:00:01", []string{"-M, --mac-addr", "01:00", "group"}},
		{"-M 00:00:00:00:00:00", []string{"-M, --mac-addr", "all zero"}},
		{"-M 02:00", []string{"-M, --mac-addr", `"02:00"`, "six"}},
		{"-n 33", []string{"-n, --netmask", `"33"`, "1 to 32"}},
		{"-n 255.0.255.0", []string{"-n, --netmask", "ones must stand before"}},
		{"-n 0.0.0.0", []string{"-n, --netmask"}},
		{"-a 192.0.2.5/24 -n 24", []string{"-n, --netmask", `"24"`, "--address 192.0.2.5/24"}},
		{"-a 192.0.2.5 -a 192.0.2.6", []string{"-a, --address", `"192.0.2.6"`, "192.0.2.5"}},
		{"-a 2001:db8::1 -a 2001:db8::2", []string{"-a, --address", "second IPv6"}},
		{"-a 192.0.2.5/33", []string{"-a, --address", "1 to 32"}},
		{"-a 2001:db8::1/129", []string{"-a, --address", "1 to 128"}},
		{"-a 127.0.0.1", []string{"-a, --address", "loopback"}},
		{"-a 224.0.0.1", []string{"-a, --address", "multicast"}},
		{"-a 255.255.255.255", []string{"-a, --address", "broadcast"}},
		{"-a 0.0.0.0", []string{"-a, --address", "unspecified"}},
		{"-a fe80::1", []string{"-a, --address", "link-local"}},
		{"-a host", []string{"-a, --address", `"host"`, "IPv4 or IPv6"}},
		{"-a 192.0.2.5 -g 192.0.2.5", []string{"-g, --gateway", `"192.0.2.5"`, "--address"}},
		{"-g 2001:db8::1", []string{"-g, --gateway", "link-local"}},
		{"-g ::1", []string{"-g, --gateway", "loopback"}},
		{"-D 127.0.0.53", []string{"-D, --dns", `"127.0.0.53"`, "--dns-forward"}},
		{"-D x", []string{"-D, --dns", `"x"`, "or none"}},
		{"-D 192.0.2.1 -D 192.0.2.2 -D 192.0.2.3 -D 192.0.2.4", []string{"-D, --dns", `"192.0.2.4"`, "at most 3"}},
		{"-S a_b..c", []string{"-S, --search", "a_b..c"}},
		{"-S a,b,c,d,e,f,g", []string{"-S, --search", "at most 6"}},
		{"-H -bad-", []string{"-H, --hostname", `"-bad-"`}},
		{"-H " + strings.Repeat("a", 64), []string{"-H, --hostname", "63"}},
		{"-i verylongifname01", []string{"-i, --interface", `"verylongifname01"`, "15"}},
		{"-4 -6", []string{"--ipv6-only", "--ipv4-only"}},
		{"-4 -a 2001:db8::1", []string{"-a, --address", `"2001:db8::1"`, "--ipv4-only"}},
		{"-6 -D 192.0.2.1", []string{"-D, --dns", `"192.0.2.1"`, "--ipv6-only"}},
		{"-6 -n 24", []string{"-n, --netmask", `"24"`, "--ipv6-only"}},
		{"-6 -t 127.0.0.1/80", []string{"-t, --tcp-ports", `"127.0.0.1/80"`, "--ipv6-only"}},
		{"-4 -u ::1/80", []string{"-u, --udp-ports", `"::1/80"`, "--ipv4-only"}},
		{"-o 0.0.0.0", []string{"-o, --outbound", `"0.0.0.0"`}},
		{"--map-host-loopback 127.0.0.1", []string{"--map-host-loopback", "loopback"}},
		{"--dns-forward 127.0.0.1", []string{"--dns-forward", "loopback"}},
		{"--dns-host x", []string{"--dns-host", `"x"`}},
		{"--dns-host 127.0.0.53 -D none", []string{"--dns-host", `"127.0.0.53"`, "--dns none", "--dns-forward"}},
		{"-t 0", []string{"-t, --tcp-ports", `"0"`, "port 0", "0:22"}},
		{"-t x", []string{"-t, --tcp-ports", `"x"`, "1 to 65535"}},
		{"-u auto", []string{"-u, --udp-ports", `"auto"`, "container"}},
		{"-t all -t all", []string{"-t, --tcp-ports", `"tcp all" conflicts`}},
		{"--runas :x", []string{"--runas", `":x"`, "LOGIN:GROUP"}},
		{"--stats 0", []string{"--stats", `"0"`, "1 to 86400 (seconds)"}},
		{"--outbound-if4 verylongifname01", []string{"--outbound-if4", `"verylongifname01"`, "15"}},
		{"-6 --outbound-if4 eth0", []string{"--outbound-if4", `"eth0"`, "--ipv6-only"}},
		{"-4 --outbound-if6 eth0", []string{"--outbound-if6", `"eth0"`, "--ipv4-only"}},
		{"-4 --map-guest-addr fd00::1", []string{"--map-guest-addr", `"fd00::1"`, "--ipv4-only"}},
		{"--map-guest-addr 127.0.0.1", []string{"--map-guest-addr", `"127.0.0.1"`, "loopback"}},
		{"--map-guest-addr 192.0.2.1 --map-host-loopback 192.0.2.1", []string{"--map-guest-addr", `"192.0.2.1"`, "--map-host-loopback"}},
		{"-t none -t 80", []string{"-t, --tcp-ports", `"80"`, "none"}},
		{"-t 80 -t none", []string{"-t, --tcp-ports", `"none"`}},
		{"-t 80 -t 80:81", []string{"--tcp-ports", `"tcp 80"`, `"tcp 80:81"`}},
		{"-t 80 --no-tcp", []string{"-t, --tcp-ports", `"80"`, "--no-tcp"}},
	}
	for _, tt := range tests {
		t.Run(tt.args[:min(len(tt.args), 40)], func(t *testing.T) {
			got, err := Parse(strings.Fields(tt.args))
			if err == nil {
				t.Fatalf("accepted: %+v", got)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has more than one line", err)
			}
		})
	}
}

func TestUnsupportedOptionsSayWhy(t *testing.T) {
	for _, u := range unsupportedOptions() {
		args := []string{"--" + u.name}
		if u.takesValue {
			args = append(args, "x")
		}
		_, err := Parse(args)
		if err == nil || !strings.Contains(err.Error(), "--"+u.name) || !strings.Contains(err.Error(), u.reason.Error()) {
			t.Errorf("%v: error %v", args, err)
		}
	}
}

func TestHelpVersionCapabilitiesWinOverConflicts(t *testing.T) {
	for _, args := range [][]string{{"-h", "-4", "-6"}, {"--version", "--client"}, {"--print-capabilities", "x"}} {
		if _, err := Parse(args); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestUsageNamesEveryOption(t *testing.T) {
	u := Usage()
	for _, name := range strings.Fields("socket fd one-off foreground print-capabilities vhost-user tcp-ports udp-ports " +
		"address netmask gateway mtu mac-addr dns search ipv4-only ipv6-only debug trace quiet log-file log-size pid help " +
		"version interface outbound hostname map-host-loopback no-map-gw dns-forward dns-host no-tcp no-udp no-icmp no-dhcp " +
		"no-big-tcp gso-max-size no-dhcpv6 fqdn dhcp-boot no-ndp no-ra client socket-mode reconnect-ms queues config runas stats freebind outbound-if4 outbound-if6 map-guest-addr") {
		if !strings.Contains(u, "--"+name) {
			t.Errorf("--%s is missing", name)
		}
	}
	if strings.Contains(u, "[=") || strings.Contains(u, "--netns") {
		t.Errorf("usage shows what it should hide:\n%s", u)
	}
}

func TestValidDomain(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a.example": true, "a.example.": true, "_srv.a": true, "1.2": true,
		"": false, ".": false, "a..b": false, "-a": false, "a-": false, "a b": false, "ä": false,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false, strings.Repeat("a.", 127) + "aa": false,
	} {
		if got := ValidDomain(name); got != want {
			t.Errorf("ValidDomain(%q) = %v", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-s /s -t 22,2222:22 -a 192.0.2.1/24")
	f.Add("--socket-path=/s -D none -S a,b -4qd1 --fd 3")
	f.Add("-M 02:00:00:00:00:01 -m 0 --dns-host fe80::1%eth0")
	f.Fuzz(func(t *testing.T, line string) {
		o, err := Parse(strings.Fields(line))
		if err == nil && o.FD >= 0 && o.SocketPath != "" && !o.Help && !o.Version && !o.PrintCapabilities {
			t.Fatalf("%q: two frontends accepted", line)
		}
	})
}
