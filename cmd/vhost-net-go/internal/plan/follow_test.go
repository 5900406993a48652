package plan

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
)

// cafe is another network, of IPv4 only.
func cafe() hostconf.State {
	return hostconf.State{
		V4:        hostconf.Family{Interface: "wlan0", MTU: 1400, Addr: pfx("198.51.100.77/22"), DefaultRoute: true, Gateway: ip("198.51.100.1")},
		HasIPv6:   true,
		Resolvers: ips("198.51.100.1"),
		Search:    []string{"cafe.example"},
		ULA:       pfx("fd12:3456:789a::/64"),
	}
}

func TestFollowKeepsTheGuest(t *testing.T) {
	o := parse(t, "-t 2222:22 -H vm1")
	before, _, err := Make(o, office())
	if err != nil {
		t.Fatal(err)
	}
	got := before.Follow(o, cafe())
	want := before
	want.IPv4.OwnGateway, want.IPv6.HostRoute = true, false
	want.DNS, want.Search = ips("198.51.100.1"), []string{"cafe.example"}
	want.DNSMoved = []Redirect{
		{Seen: ip("192.0.2.53"), Host: ip("198.51.100.1")}, {Seen: ip("2001:db8:7::53"), Host: ip("198.51.100.1")},
	}
	if d := cmp.Diff(want, got, cmpNet); d != "" {
		t.Errorf("in the café (-want +got):\n%s", d)
	}
	home := got.Follow(o, office())
	before.DNSMoved = []Redirect{{Seen: ip("198.51.100.1"), Host: ip("192.0.2.53")}}
	if d := cmp.Diff(before, home, cmpNet); d != "" {
		t.Errorf("back in the office (-want +got):\n%s", d)
	}
}

func TestFollowResolvers(t *testing.T) {
	tests := []struct {
		name, args, before, after string
		announced                 string
		forward4, host4           string
		moved                     []Redirect
	}{
		{name: "stub stays", before: "127.0.0.53", after: "127.0.0.53", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "127.0.0.53"},
		{
			name: "stub comes", before: "192.0.2.53", after: "127.0.0.53", announced: "192.0.2.1", forward4: "192.0.2.1", host4: "127.0.0.53",
			moved: []Redirect{{ip("192.0.2.53"), ip("127.0.0.53")}},
		},
		{
			name: "stub goes", before: "127.0.0.53", after: "192.0.2.53", announced: "192.0.2.53",
			moved: []Redirect{{ip("192.0.2.1"), ip("192.0.2.53")}},
		},
		{
			name: "families change", before: "192.0.2.53", after: "2001:db8:7::53", announced: "2001:db8:7::53",
			moved: []Redirect{{ip("192.0.2.53"), ip("2001:db8:7::53")}},
		},
		{name: "the user's list", args: "-D 198.51.100.5", before: "192.0.2.53", after: "192.0.2.54", announced: "198.51.100.5"},
		{name: "none", args: "-D none", before: "192.0.2.53", after: "192.0.2.54"},
		{
			name: "the user's forward", args: "--dns-forward 192.0.2.99", before: "192.0.2.53", after: "192.0.2.54", announced: "192.0.2.54",
			forward4: "192.0.2.99", host4: "192.0.2.54", moved: []Redirect{{ip("192.0.2.53"), ip("192.0.2.54")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, host := parse(t, tt.args), office()
			host.Resolvers = ips(tt.before)
			p, _, err := Make(o, host)
			if err != nil {
				t.Fatal(err)
			}
			host.Resolvers = ips(tt.after)
			n := p.Follow(o, host)
			if d := cmp.Diff(ips(tt.announced), n.DNS, cmpNet); d != "" {
				t.Errorf("announced (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.moved, n.DNSMoved, cmpNet); d != "" {
				t.Errorf("moved (-want +got):\n%s", d)
			}
			var forward4, host4 netip.Addr
			if tt.forward4 != "" {
				forward4, host4 = ip(tt.forward4), ip(tt.host4)
			}
			if n.DNSForward4 != forward4 || n.DNSHost4 != host4 {
				t.Errorf("forward %v to %v", n.DNSForward4, n.DNSHost4)
			}
		})
	}
}

// TestFollowForgets: the list of old resolvers does not grow without end.
func TestFollowForgets(t *testing.T) {
	o, host := parse(t, ""), office()
	p, _, err := Make(o, host)
	if err != nil {
		t.Fatal(err)
	}
	for a := ip("203.0.113.1"); a != ip("203.0.113.200"); a = a.Next() {
		host.Resolvers = []netip.Addr{a}
		p = p.Follow(o, host)
		for _, b := range broken(p, o) {
			t.Fatal(b)
		}
	}
	if len(p.DNSMoved) != maxMoved || p.DNSMoved[maxMoved-1].Seen != ip("203.0.113.198") {
		t.Errorf("moved %v", p.DNSMoved)
	}
}
