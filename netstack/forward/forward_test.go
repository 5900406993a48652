package forward

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var cmpAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// tcp makes the rule most cases differ from in one field.
func tcp(first, last, target uint16, change ...func(*Rule)) Rule {
	r := Rule{Proto: TCP, FirstPort: first, LastPort: last, TargetFirstPort: target}
	for _, f := range change {
		f(&r)
	}
	return r
}

func listen(s string) func(*Rule) { return func(r *Rule) { r.ListenAddr = addr(s) } }
func onIf(s string) func(*Rule)   { return func(r *Rule) { r.Interface = s } }
func to(s string) func(*Rule)     { return func(r *Rule) { r.TargetAddr = addr(s) } }

func TestParseSpec(t *testing.T) {
	tests := []struct {
		spec string
		want []Rule
	}{
		{"none", nil},
		{"22", []Rule{tcp(22, 22, 22)}},
		{"1", []Rule{tcp(1, 1, 1)}},
		{"65535", []Rule{tcp(65535, 65535, 65535)}},
		{"2222:22", []Rule{tcp(2222, 2222, 22)}},
		{"80,443", []Rule{tcp(80, 80, 80), tcp(443, 443, 443)}},
		{"8080:80,8443:443", []Rule{tcp(8080, 8080, 80), tcp(8443, 8443, 443)}},
		{"8000-8010", []Rule{tcp(8000, 8010, 8000)}},
		{"8000-8010:9000-9010", []Rule{tcp(8000, 8010, 9000)}},
		{"7-7:9-9", []Rule{tcp(7, 7, 9)}},
		{"127.0.0.1/22", []Rule{tcp(22, 22, 22, listen("127.0.0.1"))}},
		{"127.0.0.1/22,23", []Rule{tcp(22, 22, 22, listen("127.0.0.1")), tcp(23, 23, 23, listen("127.0.0.1"))}},
		{"0.0.0.0/22", []Rule{tcp(22, 22, 22, listen("0.0.0.0"))}},
		{"::1/22", []Rule{tcp(22, 22, 22, listen("::1"))}},
		{"[::1]/22:2", []Rule{tcp(22, 22, 2, listen("::1"))}},
		{"2001:db8::1/22", []Rule{tcp(22, 22, 22, listen("2001:db8::1"))}},
		{"::ffff:192.0.2.1/22", []Rule{tcp(22, 22, 22, listen("192.0.2.1"))}},
		{"%eth0/22", []Rule{tcp(22, 22, 22, onIf("eth0"))}},
		{"*%eth0/22", []Rule{tcp(22, 22, 22, onIf("eth0"))}},
		{"*/22", []Rule{tcp(22, 22, 22)}},
		{"%abcdefghijklmno/22", []Rule{tcp(22, 22, 22, onIf("abcdefghijklmno"))}},
		{"192.0.2.1%eth0/22", []Rule{tcp(22, 22, 22, listen("192.0.2.1"), onIf("eth0"))}},
		{"fe80::1%eth0/22", []Rule{tcp(22, 22, 22, listen("fe80::1"), onIf("eth0"))}},
		{"[fe80::1%eth0]/22", []Rule{tcp(22, 22, 22, listen("fe80::1"), onIf("eth0"))}},
		{"[fe80::1]%eth0/22", []Rule{tcp(22, 22, 22, listen("fe80::1"), onIf("eth0"))}},
		{"0.0.0.0/80:192.0.2.5", []Rule{tcp(80, 80, 80, listen("0.0.0.0"), to("192.0.2.5"))}},
		{"0.0.0.0/80:192.0.2.5/8080", []Rule{tcp(80, 80, 8080, listen("0.0.0.0"), to("192.0.2.5"))}},
		{"::/80:[fd00::5]/8080", []Rule{tcp(80, 80, 8080, listen("::"), to("fd00::5"))}},
		{"::/80:fd00::5", []Rule{tcp(80, 80, 80, listen("::"), to("fd00::5"))}},
		{"0.0.0.0/80-81:192.0.2.5/8080-8081", []Rule{tcp(80, 81, 8080, listen("0.0.0.0"), to("192.0.2.5"))}},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			got, err := ParseSpec(TCP, tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got, cmpAddr); d != "" {
				t.Fatalf("rules (-want +got):\n%s", d)
			}
		})
	}
}

func TestParseSpecRefuses(t *testing.T) {
	tests := []struct{ spec, want string }{
		{"", "at least one port"},
		{"127.0.0.1/", "at least one port"},
		{"80,", "at least one port"},
		{",80", "at least one port"},
		{"0", "port 0"},
		{"80:0", "port 0"},
		{"65536", `"65536": a port is a number`},
		{"-1", "a port is a number"},
		{"+80", "a port is a number"},
		{"http", `"http": a port is a number`},
		{"80:", "a port is a number"},
		{":80", "a port is a number"},
		{"80-", "a port is a number"},
		{" 80", "a port is a number"},
		{"90-80", "from its lower to its higher"},
		{"80-90:1-2", "same number of ports"},
		{"80:1-2", "same number of ports"},
		{"80-90:100", "same number of ports"},
		{"80-81:65535", "same number of ports"},
		{"300.0.0.1/80", `"300.0.0.1": not an IPv4 or IPv6 address`},
		{"/80", "not an IPv4"},
		{"[::1/80", "not an IPv4"},
		{"[127.0.0.1]/80", "not an IPv4"},
		{"eth0/80", `"eth0": not an IPv4`},
		{"%/80", "an interface name has 1 to 15"},
		{"%abcdefghijklmnop/80", "an interface name has 1 to 15"},
		{"224.0.0.1/80", "multicast"},
		{"ff02::1/80", "multicast"},
		{"80:192.0.2.1", "listening address is needed"},
		{"::/80:192.0.2.1", "listening address is needed"},
		{"0.0.0.0/80:0.0.0.0", "one particular address"},
		{"0.0.0.0/80:192.0.2.1/", "a port is a number"},
		{"all", "not supported yet"},
		{"auto", "not supported yet"},
		{"~22", "not supported yet"},
		{"80,~22", `"~22": exclusions`},
		{strings.Repeat("1,", MaxRules) + "1", "more than"},
	}
	for _, tt := range tests {
		t.Run(tt.spec[:min(len(tt.spec), 20)], func(t *testing.T) {
			got, err := ParseSpec(UDP, tt.spec)
			if err == nil {
				t.Fatalf("accepted as %v", got)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %q lacks %q", err, tt.want)
			}
		})
	}
}

func TestRuleStringAndPorts(t *testing.T) {
	r := tcp(8000, 8010, 9000, listen("::1"), onIf("lo"))
	if got, want := r.String(), "tcp ::1%lo/8000-8010:9000-9010"; got != want {
		t.Errorf("String = %q, want %q", got, want)
	}
	if got := r.TargetPort(8003); got != 9003 {
		t.Errorf("TargetPort(8003) = %d, want 9003", got)
	}
	if got := r.Ports(); got != 11 {
		t.Errorf("Ports = %d, want 11", got)
	}
	if got := (Rule{Proto: UDP, FirstPort: 53, LastPort: 53, TargetFirstPort: 53}).String(); got != "udp 53" {
		t.Errorf("String = %q", got)
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name     string
		a, b     Rule
		conflict bool
	}{
		{"same port", tcp(80, 80, 80), tcp(80, 80, 81), true},
		{"other port", tcp(80, 80, 80), tcp(81, 81, 80), false},
		{"ranges overlap", tcp(80, 90, 80), tcp(90, 95, 80), true},
		{"ranges touch", tcp(80, 89, 80), tcp(90, 95, 80), false},
		{"other protocol", tcp(80, 80, 80), Rule{Proto: UDP, FirstPort: 80, LastPort: 80}, false},
		{"two addresses", tcp(80, 80, 80, listen("127.0.0.1")), tcp(80, 80, 80, listen("127.0.0.2")), false},
		{"two families", tcp(80, 80, 80, listen("0.0.0.0")), tcp(80, 80, 80, listen("::")), false},
		{"wildcard and address", tcp(80, 80, 80, listen("0.0.0.0")), tcp(80, 80, 80, listen("127.0.0.1")), true},
		{"both families and address", tcp(80, 80, 80), tcp(80, 80, 80, listen("::1")), true},
		{"two interfaces", tcp(80, 80, 80, onIf("eth0")), tcp(80, 80, 80, onIf("eth1")), false},
		{"interface and any", tcp(80, 80, 80, onIf("eth0")), tcp(80, 80, 80), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, rules := range [][]Rule{{tt.a, tt.b}, {tt.b, tt.a}} {
				err := Check(rules)
				if (err != nil) != tt.conflict {
					t.Fatalf("Check = %v, conflict wanted: %v", err, tt.conflict)
				}
				if err != nil && !strings.Contains(err.Error(), tt.a.String()) {
					t.Fatalf("error %q does not name %q", err, tt.a)
				}
			}
		})
	}
}

// FuzzParseSpec checks that whatever is accepted is consistent and survives
// being written and read again.
func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{
		"none", "22", "2222:22", "8000-8010:9000-9010", "127.0.0.1/22,23", "[fe80::1%eth0]/22",
		"0.0.0.0/80:192.0.2.5/8080", "::/80:[fd00::5]/8080", "*%eth0/1-65535", "~1", "all",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		rules, err := ParseSpec(UDP, spec)
		if err != nil {
			return
		}
		for _, r := range rules {
			if r.FirstPort == 0 || r.TargetFirstPort == 0 || r.LastPort < r.FirstPort {
				t.Fatalf("%q: inconsistent ports %+v", spec, r)
			}
			if int(r.TargetFirstPort)+r.Ports()-1 > 65535 {
				t.Fatalf("%q: target passes the last port: %+v", spec, r)
			}
			again, err := ParseSpec(UDP, r.Spec())
			if err != nil {
				t.Fatalf("%q: written as %q, which is refused: %v", spec, r.Spec(), err)
			}
			if d := cmp.Diff([]Rule{r}, again, cmpAddr); d != "" {
				t.Fatalf("%q: written as %q, read as another rule:\n%s", spec, r.Spec(), d)
			}
		}
	})
}
