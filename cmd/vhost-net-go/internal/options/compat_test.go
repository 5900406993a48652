package options

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

// TestCommandLinesOfOthers reads what programs that start passt give it.
func TestCommandLinesOfOthers(t *testing.T) {
	tests := []struct {
		name, args string
		want       func(*Options)
	}{
		{
			"libvirt, with ports",
			"--one-off --vhost-user --socket /run/libvirt/qemu/passt/1-vm-net0.socket --pid /run/libvirt/qemu/passt/1-vm-net0-passt.pid " +
				"--log-file /var/log/passt.log --mac-addr 52:54:00:00:00:01 --interface eth0 --address 172.17.2.4 --netmask 24 " +
				"--tcp-ports 5301:5201 --udp-ports 127.0.0.1/53:5353",
			func(o *Options) {
				o.OneOff, o.SocketPath = true, "/run/libvirt/qemu/passt/1-vm-net0.socket"
				o.PidFile, o.LogFile = "/run/libvirt/qemu/passt/1-vm-net0-passt.pid", "/var/log/passt.log"
				o.MAC, o.Interface = [6]byte{0x52, 0x54, 0, 0, 0, 1}, "eth0"
				o.Addr4, o.PrefixLen4 = addr("172.17.2.4"), 24
				udp := rule(forward.UDP, 53, 5353)
				udp.ListenAddr = addr("127.0.0.1")
				o.Forwards = []forward.Rule{rule(forward.TCP, 5301, 5201), udp}
			},
		},
		{
			"QEMU's own starter, with a descriptor",
			"--vhost-user --fd 10 --quiet --ipv4-only --no-map-gw --mtu 1500 --address 10.0.2.15 --gateway 10.0.2.2 " +
				"--dns 10.0.2.3 --search lan --no-dhcpv6 --no-ra --tcp-ports 2222:22",
			func(o *Options) {
				o.FD, o.OneOff, o.Level, o.IPv4Only = 10, true, Quiet, true
				o.MTU, o.MTUSet = 1500, true
				o.Addr4, o.Gateway4, o.DNS = addr("10.0.2.15"), addr("10.0.2.2"), addrs("10.0.2.3")
				o.Search, o.NoDHCP6, o.NoRA = []string{"lan"}, true, true
				o.Forwards = []forward.Rule{rule(forward.TCP, 2222, 22)}
			},
		},
		{
			"a script, with short options run together",
			"-1fq -s/tmp/s -m1500 -4",
			func(o *Options) {
				o.OneOff, o.Level, o.SocketPath = true, Quiet, "/tmp/s"
				o.MTU, o.MTUSet, o.IPv4Only = 1500, true, true
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
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

// TestLastOccurrenceWins repeats each option that holds one value.
// TestParsePasst is about what differs under that name.
func TestParsePasst(t *testing.T) {
	got, err := ParsePasst(strings.Fields("--vhost-user -s /s"))
	want := defaults()
	want.Passt, want.Background, want.SocketPath = true, true, "/s"
	if d := cmp.Diff(want, got, cmpOptions); d != "" || err != nil {
		t.Errorf("error %v, options (-want +got):\n%s", err, d)
	}
	got, err = ParsePasst(strings.Fields("-f --stats 3 --vhost-user -s /s"))
	want.Background, want.StatsSeconds = false, 3
	if d := cmp.Diff(want, got, cmpOptions); d != "" || err != nil {
		t.Errorf("error %v, options (-want +got):\n%s", err, d)
	}
	for args, wants := range map[string][]string{
		"-s /s":                  {"--vhost-user", "is missing", "vhost-user only"},
		"--vhost-user --stats 3": {"--stats", `"3"`, "--foreground"},
	} {
		_, err := ParsePasst(strings.Fields(args))
		for _, w := range wants {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %v lacks %q", args, err, w)
			}
		}
	}
	if o, err := ParsePasst([]string{"--print-capabilities"}); err != nil || !o.PrintCapabilities {
		t.Errorf("%+v, error %v", o, err)
	}
}

func TestLastOccurrenceWins(t *testing.T) {
	for _, tt := range []struct{ flag, first, last string }{
		{"-s", "/a", "/b"},
		{"-F", "5", "6"},
		{"-P", "/a", "/b"},
		{"-l", "/a", "/b"},
		{"-m", "1500", "9000"},
		{"-M", "02:00:00:00:00:01", "02:00:00:00:00:02"},
		{"-n", "24", "16"},
		{"-g", "192.0.2.1", "192.0.2.2"},
		{"-g", "fe80::1", "fe80::2"},
		{"-o", "192.0.2.1", "192.0.2.2"},
		{"-i", "eth0", "eth1"},
		{"-H", "a", "b"},
		{"--socket-mode", "0600", "0660"},
		{"--dns-forward", "192.0.2.1", "192.0.2.2"},
		{"--dns-host", "127.0.0.1", "127.0.0.2"},
		{"--map-host-loopback", "192.0.2.1", "192.0.2.2"},
	} {
		twice, err := Parse([]string{tt.flag, tt.first, tt.flag, tt.last})
		if err != nil {
			t.Errorf("%s: %v", tt.flag, err)
			continue
		}
		once, err := Parse([]string{tt.flag, tt.last})
		if err != nil {
			t.Errorf("%s: %v", tt.flag, err)
			continue
		}
		if d := cmp.Diff(once, twice, cmpOptions); d != "" {
			t.Errorf("%s %s %s (-last +both):\n%s", tt.flag, tt.first, tt.last, d)
		}
	}
}

// TestOrderDoesNotMatter parses options that do not concern each other in both
// orders.
func TestOrderDoesNotMatter(t *testing.T) {
	args := [][]string{
		{"-s", "/s"},
		{"-1"},
		{"-4"},
		{"-a", "192.0.2.5/24"},
		{"-g", "192.0.2.1"},
		{"-m", "1500"},
		{"-t", "80"},
		{"-u", "53"},
		{"-D", "192.0.2.53"},
		{"-S", "a.example"},
		{"-H", "vm"},
		{"--no-icmp"},
		{"-d"},
		{"-l", "/l"},
		{"--log-size", "50000"},
	}
	forth, err := Parse(slices.Concat(args...))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(args)
	back, err := Parse(slices.Concat(args...))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(forth, back, cmpOptions); d != "" {
		t.Errorf("options (-forth +back):\n%s", d)
	}
}
