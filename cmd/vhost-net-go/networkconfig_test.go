package main

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// fullPlan sets every field to something other than its zero value.
func fullPlan() plan.Plan {
	ip := netip.MustParseAddr
	return plan.Plan{
		GatewayMAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: 1500, AnnounceMTU: true,
		IPv4: plan.IPv4{Enabled: true, Guest: ip("192.0.2.5"), Gateway: ip("192.0.2.1"), PrefixLen: 24, OffLink: true, OwnGateway: true},
		IPv6: plan.IPv6{
			Enabled: true, Guest: ip("2001:db8::5"), Lease: ip("2001:db8::6"), Prefix: netip.MustParsePrefix("2001:db8::/64"),
			Gateway: ip("fe80::1"), HostRoute: true,
		},
		DNS: []netip.Addr{ip("192.0.2.53")}, Search: []string{"a.example"}, Hostname: "vm", FQDN: "vm.a.example",
		BootFile: "http://boot.example/x", BootServer: ip("192.0.2.7"),
		DNSForward4: ip("192.0.2.1"), DNSHost4: ip("127.0.0.53"),
		DNSForward6: ip("fe80::1"), DNSHost6: ip("::1"),
		DNSMoved:         []plan.Redirect{{Seen: ip("192.0.2.54"), Host: ip("192.0.2.53")}},
		MapHostLoopback4: ip("192.0.2.9"), MapHostLoopback6: ip("2001:db8::9"),
		MapGuest4: ip("192.0.2.8"), MapGuest6: ip("2001:db8::8"),
		Outbound4: ip("192.0.2.5"), Outbound6: ip("2001:db8::5"), OutboundIf4: "eth0", OutboundIf6: "eth1", FreeBind: true,
		Forwards: []forward.Rule{{Proto: forward.TCP, FirstPort: 22, LastPort: 22, TargetFirstPort: 22}},
		NoTCP:    true, NoUDP: true, NoICMP: true, NoDHCP: true, NoDHCP6: true, NoNDP: true, NoRA: true,
	}
}

// TestNetworkConfigForgetsNothing finds fields of the stack's configuration
// that no field of the plan reaches.
func TestNetworkConfigForgetsNothing(t *testing.T) {
	p := fullPlan()
	requireFilled(t, "plan", reflect.ValueOf(p))
	p.IPv6.HostRoute = false // the stack's field says the opposite
	cfg := networkConfig(p)
	cfg.PingForbidden = func(error) {}                // set where the log is
	cfg.Shrunk = func() {}                            // where memory is given back
	cfg.Capture = &capture.Capture{}                  // and where the file is opened
	cfg.Sockets = []netstack.InheritedSocket{{FD: 3}} // nor are these planned
	cfg.MaxFrameBytes = 1 << 18                       // nor is this
	cfg.TxBatchFrames, cfg.FlushFrames = 64, 64       // only benchmarks set them
	requireFilled(t, "config", reflect.ValueOf(cfg))
}

// requireFilled looks for zero fields in our own structures.
func requireFilled(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is not set", name)
	}
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[netip.Addr]() || v.Type() == reflect.TypeFor[netip.Prefix]() {
		return
	}
	for i := range v.NumField() {
		requireFilled(t, name+"."+v.Type().Field(i).Name, v.Field(i))
	}
}

func TestNetworkConfigDNSForward(t *testing.T) {
	p := fullPlan()
	want := []addrmap.Forward{
		{Seen: p.DNSForward4, Host: p.DNSHost4},
		{Seen: p.DNSForward6, Host: p.DNSHost6},
		{Seen: p.DNSMoved[0].Seen, Host: p.DNSMoved[0].Host},
	}
	if got := networkConfig(p).DNSForward; !reflect.DeepEqual(got, want) {
		t.Errorf("forwards = %v, want %v", got, want)
	}
	p.DNSForward4, p.DNSHost4 = netip.Addr{}, netip.Addr{}
	if got := networkConfig(p).DNSForward; !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("forwards = %v, want %v", got, want[1:])
	}
	if got := networkConfig(plan.Plan{}).DNSForward; len(got) != 0 {
		t.Errorf("forwards = %v, want none", got)
	}
}

// TestProtocolFeatures: QEMU's starter of passt would close the number of the
// channel for requests of ours.
func TestProtocolFeatures(t *testing.T) {
	for _, tt := range []struct {
		opts options.Options
		want uint64
	}{
		{options.Options{FD: -1}, wire.ProtocolBackendReq},
		{options.Options{FD: 3}, wire.ProtocolBackendReq},
		{options.Options{FD: -1, Passt: true}, wire.ProtocolBackendReq},
		{options.Options{FD: 3, Passt: true}, 0},
	} {
		if got := protocolFeatures(tt.opts) & wire.ProtocolBackendReq; got != tt.want {
			t.Errorf("%+v: %#x, want %#x", tt.opts, got, tt.want)
		}
	}
}
