package forward

import (
	"net/netip"
	"slices"
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

func bestEffort(except ...Range) func(*Rule) {
	return func(r *Rule) { r.BestEffort, r.Except = true, except }
}
func to(s string) func(*Rule) { return func(r *Rule) { r.TargetAddr = addr(s) } }

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
		{"0:22", []Rule{tcp(0, 0, 22)}},
		{"127.0.0.1/0:22,0:23", []Rule{tcp(0, 0, 22, listen("127.0.0.1")), tcp(0, 0, 23, listen("127.0.0.1"))}},
		{"0.0.0.0/0:192.0.2.5/22", []Rule{tcp(0, 0, 22, listen("0.0.0.0"), to("192.0.2.5"))}},
		{"all", []Rule{tcp(1, 65535, 1, bestEffort())}},
		{"::1/all", []Rule{tcp(1, 65535, 1, listen("::1"), bestEffort())}},
		{"127.0.0.6/all:192.0.2.6", []Rule{tcp(1, 65535, 1, listen("127.0.0.6"), to("192.0.2.6"), bestEffort())}},
		{"::/all:fd00::5", []Rule{tcp(1, 65535, 1, listen("::"), to("fd00::5"), bestEffort())}},
		{"~20000-20010", []Rule{tcp(1, 65535, 1, bestEffort(Range{20000, 20010}))}},
		{"%eth0/~22,~80", []Rule{tcp(1, 65535, 1, onIf("eth0"), bestEffort(Range{22, 22}, Range{80, 80}))}},
		{"2000-5000,~3000-3010", []Rule{tcp(2000, 2999, 2000), tcp(3011, 5000, 3011)}},
		{"192.0.2.1/20-30,~25", []Rule{tcp(20, 24, 20, listen("192.0.2.1")), tcp(26, 30, 26, listen("192.0.2.1"))}},
		{"~25,20-30:120-130", []Rule{tcp(20, 24, 120), tcp(26, 30, 126)}},
		{"20-30,~20,~30,~25", []Rule{tcp(21, 24, 21), tcp(26, 29, 26)}},
		{"20-30,40,~10-35", []Rule{tcp(40, 40, 40)}},
		{"all,8080:80,~22", []Rule{tcp(1, 65535, 1, bestEffort(Range{22, 22})), tcp(8080, 8080, 80)}},
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
		{"0:0", "port 0"},
		{"80:0", "port 0"},
		{"0-5:1-6", "port 0"},
		{"0.0.0.0/0:192.0.2.1", "port 0"},
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
		{"auto", "for a virtual machine"},
		{"8000-8010,auto", "for a virtual machine"},
		{"all:80", "keeps the port numbers"},
		{"0.0.0.0/all:192.0.2.1/80", "keeps the port numbers"},
		{"all:192.0.2.1", "listening address is needed"},
		{"alles", "a port is a number"},
		{"~", `"~"`},
		{"~22:23", `"~22:23"`},
		{"~0", "an exclusion is"},
		{"80,~70-90", "leave no port"},
		{"~1-65535", "leave no port"},
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

func TestHostPorts(t *testing.T) {
	r := tcp(10, 20, 10, bestEffort(Range{12, 18})).Without(Range{20, 30})
	if got, want := slices.Collect(r.HostPorts()), []uint16{10, 11, 19}; !slices.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
	if got := tcp(10, 11, 10).Without(Range{10, 10}); len(got.Except) != 0 {
		t.Errorf("a rule that names its ports lost one: %+v", got)
	}
	if got := slices.Collect(tcp(65535, 65535, 1).HostPorts()); !slices.Equal(got, []uint16{65535}) {
		t.Errorf("ports %v", got)
	}
	if got := slices.Collect(tcp(0, 0, 22).HostPorts()); !slices.Equal(got, []uint16{0}) {
		t.Errorf("ports %v", got)
	}
	if got := tcp(0, 0, 22).TargetPort(40000); got != 22 {
		t.Errorf("target port %d", got)
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
		{"one of two interfaces and an address", tcp(80, 80, 80, onIf("eth0")), tcp(80, 80, 80, onIf("eth1"), listen("192.0.2.1")), false},
		{"all and a port", tcp(1, 65535, 1, bestEffort()), tcp(8080, 8080, 80), false},
		{"all twice", tcp(1, 65535, 1, bestEffort()), tcp(1, 65535, 1, bestEffort()), true},
		{"any port twice", tcp(0, 0, 22), tcp(0, 0, 22), false},
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
		"0.0.0.0/80:192.0.2.5/8080", "::/80:[fd00::5]/8080", "*%eth0/1-65535", "~1", "all", "0:22",
		"1-9,~4,~2-3", "127.0.0.1/all:192.0.2.1,~22",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		rules, err := ParseSpec(UDP, spec)
		if err != nil {
			return
		}
		for _, r := range rules {
			if (r.FirstPort == 0) != r.AnyPort() || r.TargetFirstPort == 0 || r.LastPort < r.FirstPort {
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
