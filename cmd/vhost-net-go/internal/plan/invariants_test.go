package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

// broken lists what is wrong with a plan, whatever it was made from.
func broken(p Plan, o options.Options) []string {
	var out []string
	bad := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	bad(!p.IPv4.Enabled && !p.IPv6.Enabled, "no address family")
	bad(p.MTU < options.MinMTU4 || p.MTU > options.MaxMTU, "MTU %d", p.MTU)
	bad(p.GatewayMAC[0]&1 != 0 || p.GatewayMAC == [6]byte{}, "MAC %x", p.GatewayMAC)
	if ip4 := p.IPv4; ip4.Enabled {
		bad(!ip4.Guest.Is4() || !ip4.Gateway.Is4() || ip4.Guest == ip4.Gateway, "IPv4 %+v", ip4)
		bad(ip4.PrefixLen < 1 || ip4.PrefixLen > 32, "prefix length %d", ip4.PrefixLen)
		bad(ip4.OffLink == netip.PrefixFrom(ip4.Guest, ip4.PrefixLen).Contains(ip4.Gateway), "OffLink is wrong: %+v", ip4)
	} else {
		bad(ip4 != IPv4{}, "IPv4 is off, but %+v", ip4)
	}
	if ip6 := p.IPv6; ip6.Enabled {
		bad(ip6.Prefix.Bits() != 64 || ip6.Prefix != ip6.Prefix.Masked() || !ip6.Prefix.Addr().Is6(), "prefix %v", ip6.Prefix)
		bad(!ip6.Gateway.IsLinkLocalUnicast() || ip6.Gateway.Zone() != "", "gateway %v", ip6.Gateway)
		bad(ip6.Guest.IsValid() && !ip6.Prefix.Contains(ip6.Guest), "guest %v outside %v", ip6.Guest, ip6.Prefix)
		bad(!ip6.Prefix.Contains(ip6.Lease) || ip6.Guest.IsValid() && ip6.Guest != ip6.Lease, "lease %v", ip6.Lease)
	} else {
		bad(ip6 != IPv6{}, "IPv6 is off, but %+v", ip6)
	}
	bad(p.DNSForward4.IsValid() != p.DNSHost4.IsValid(), "IPv4 DNS %v to %v", p.DNSForward4, p.DNSHost4)
	bad(p.DNSForward6.IsValid() != p.DNSHost6.IsValid(), "IPv6 DNS %v to %v", p.DNSForward6, p.DNSHost6)
	seen := map[netip.Addr]bool{}
	for _, a := range p.DNS {
		bad(a.IsLoopback() || a.IsUnspecified() || a.Zone() != "", "resolver %v is of no use to a guest", a)
		bad(a == p.IPv4.Guest || a == p.IPv6.Lease, "resolver %v is the guest", a)
		bad(seen[a], "resolver %v twice", a)
		bad(len(o.DNS) == 0 && !p.enabled(a.Is4()), "resolver %v of a family that is off", a)
		seen[a] = true
	}
	for _, r := range p.Forwards {
		both := p.IPv4.Enabled && p.IPv6.Enabled
		bad(!r.ListenAddr.IsValid() && !both, "%v listens on a family that is off", r)
		bad(r.ListenAddr.IsValid() && !p.enabled(r.ListenAddr.Is4()), "%v listens on a family that is off", r)
	}
	return out
}

// TestEveryHostWithEveryOption goes through all combinations of odd hosts and
// options: each gives a sound plan.
func TestEveryHostWithEveryOption(t *testing.T) {
	v4 := map[string]hostconf.Family{
		"none":     {},
		"ordinary": office().V4,
		"no route": {Interface: "eth0", Addr: pfx("192.0.2.5/24")},
		"tunnel":   {Interface: "tun0", Addr: pfx("10.9.0.2/32"), Peer: ip("10.9.0.1"), DefaultRoute: true},
		"bare /32": {Interface: "wg0", Addr: pfx("10.9.0.2/32"), DefaultRoute: true},
		"/31":      {Interface: "eth0", Addr: pfx("10.9.0.1/31"), DefaultRoute: true},
		"/30 last": {Interface: "eth0", Addr: pfx("10.9.0.2/30"), DefaultRoute: true},
		"far hop":  {Interface: "eth0", Addr: pfx("203.0.113.5/32"), DefaultRoute: true, Gateway: ip("172.31.1.1")},
		"no addr":  {Interface: "eth0", DefaultRoute: true, Gateway: ip("192.0.2.1")},
		"self":     {Interface: "eth0", Addr: pfx("192.0.2.1/24"), DefaultRoute: true, Gateway: ip("192.0.2.1")},
		"/1":       {Interface: "eth0", Addr: pfx("1.2.3.4/1"), DefaultRoute: true},
		"zeroconf": {Interface: "eth0", Addr: pfx("169.254.2.2/16")},
	}
	v6 := map[string]hostconf.Family{
		"none":     {},
		"ordinary": office().V6,
		"/128":     {Interface: "wg0", Addr: pfx("2001:db8::1/128"), DefaultRoute: true},
		"global":   {Interface: "eth0", Addr: pfx("fd00::5/64"), DefaultRoute: true, Gateway: ip("fd00::1")},
	}
	resolvers := []string{"127.0.0.1", "127.0.0.53 ::1", "fe80::1%eth0", "fe80::1", "192.0.2.5", "0.0.0.0 ::", "2001:db8::53 192.0.2.53", ""}
	args := []string{
		"", "-4", "-6", "-a 10.0.2.15", "-a 10.0.2.15/32", "-a fd01::9", "-m 0", "-t 80 -u 53", "-4 -t 80", "-6 -t 80",
		"-D none", "-D 198.51.100.1", "--dns-forward 198.51.100.9", "--dns-host ::1", "--no-dhcp-dns",
	}
	for _, a := range args {
		o := parse(t, a)
		for n4, f4 := range v4 {
			for n6, f6 := range v6 {
				for _, r := range resolvers {
					host := hostconf.State{V4: f4, V6: f6, HasIPv6: true, Resolvers: ips(r), ULA: pfx("fd12:3456:789a::/64")}
					p, warnings, err := Make(o, host)
					if err != nil || len(warnings) > 1 {
						// Such a clash must be told, and names the option.
						if err == nil || !strings.Contains(err.Error(), "-") {
							t.Errorf("%q, IPv4 %s, IPv6 %s, resolvers %q: error %v, warnings %q", a, n4, n6, r, err, warnings)
						}
						continue
					}
					for _, b := range broken(p, o) {
						t.Errorf("%q, IPv4 %s, IPv6 %s, resolvers %q: %s", a, n4, n6, r, b)
					}
				}
			}
		}
	}
}
