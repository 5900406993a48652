package tcp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/internal/nstest"
)

// Destinations behind the router of nstest, and in no other place.
const (
	beyond4, beyondNet4 = "198.51.100.7", "198.51.100.0/24"
	beyond6, beyondNet6 = "2001:db8:99::7", "2001:db8:99::/64"
)

// atOnce bounds how long the guest waits for an answer that the host has at once.
const atOnce = 300 * time.Millisecond

// to makes flow n one to port of a real destination.
func (x *script) to(n int, dst string, port uint16) {
	g := x.guest(n)
	g.peer, g.peerPort = netip.MustParseAddr(dst), port
}

// TestConnectWhereHostCannot: connections that the host's own routes, or a router, or
// the destination refuse. The guest learns of it at once and by the message of that
// kind, and never sees a connection.
func TestConnectWhereHostCannot(t *testing.T) {
	route := func(kind string) func(testing.TB) {
		return func(t testing.TB) {
			nstest.IP(t, "route", "add", kind, beyondNet4)
			nstest.IP(t, "-6", "route", "add", kind, beyondNet6)
		}
	}
	// IPv4 only: how often a router of Linux says it by ICMPv6 is limited.
	behind := func(kind string) func(testing.TB) {
		return func(t testing.TB) {
			nstest.AddRouter(t, 1500)
			nstest.RouterIP(t, "route", "add", kind, beyondNet4)
			nstest.RouterIP(t, "-6", "route", "add", kind, beyondNet6)
		}
	}
	for _, tc := range []struct {
		name       string
		network    func(testing.TB)
		dst4, dst6 string
		want       string
	}{
		{"no route at all", func(testing.TB) {}, beyond4, beyond6, "icmp net"},
		{"an unreachable route", route("unreachable"), beyond4, beyond6, "icmp host"},
		{"a prohibiting route", route("prohibit"), beyond4, beyond6, "icmp prohibited"},
		{"a route into a black hole", route("blackhole"), beyond4, beyond6, "icmp net"},
		{"a router says unreachable", behind("unreachable"), beyond4, "", "icmp host"},
		{"a port that is closed", func(t testing.TB) { nstest.AddRouter(t, 1500) }, nstest.Far4, nstest.Far6, "R. 0 ack 1"},
	} {
		for v6, dst := range map[bool]string{false: tc.dst4, true: tc.dst6} {
			if dst == "" {
				continue
			}
			t.Run(tc.name+", "+dst, func(t *testing.T) {
				nstest.Enter(t, nstest.Nobody)
				tc.network(t)
				x := newScript(t, setup{v6: v6})
				x.to(1, dst, 81)
				router := map[bool]string{false: nstest.Far4, true: nstest.Far6}[v6]
				_, _ = net.DialTimeout("tcp", net.JoinHostPort(router, "9"), 3*time.Second) // its hardware address is known then
				files, start := openFiles(t), time.Now()
				x.step("guest > S 0 mss 1440")
				x.step("backend < " + tc.want)
				if took := time.Since(start); took > atOnce {
					t.Errorf("answer after %v", took)
				}
				x.step("flows 0")
				x.step("backend silent")
				if n := openFiles(t); n > files {
					t.Errorf("%d descriptors, %d before", n, files)
				}
			})
		}
	}
}

// TestConnectIntoSilence: where nothing answers, the guest hears nothing, and what it
// repeats opens nothing.
func TestConnectIntoSilence(t *testing.T) {
	nstest.Enter(t, nstest.Nobody)
	nstest.AddRouter(t, 1500)
	nstest.RouterIP(t, "route", "add", "blackhole", beyondNet4)
	x := newScript(t, setup{})
	x.to(1, beyond4, 80)
	files := openFiles(t)
	for range 5 {
		x.step("guest > S 0 mss 1460")
		x.turn(30 * time.Millisecond)
		x.step("backend silent")
	}
	x.step("flows 1")
	if n := openFiles(t) - files; n != 1 {
		t.Errorf("%d descriptors for one connection", n)
	}
}

// TestConnectToFarHost: the guest's SYN is answered when the host's was, not before.
func TestConnectToFarHost(t *testing.T) {
	nstest.Enter(t, nstest.Nobody)
	nstest.AddRouter(t, 1500)
	nstest.IP(t, "ntable", "change", "name", "arp_cache", "dev", "near", "retrans", "20", "mcast_probes", "100")
	nstest.RouterIP(t, "link", "set", "far", "arp", "off")
	var l net.Listener
	nstest.InRouter(t, func() (err error) {
		l, err = net.Listen("tcp", nstest.Far4+":80")
		return err
	})
	defer l.Close()
	x := newScript(t, setup{})
	x.to(1, nstest.Far4, 80)
	x.step("guest > S 0 mss 1460")
	for range 30 { // the SYN is on its way
		x.turn(10 * time.Millisecond)
		x.step("backend silent")
	}
	nstest.RouterIP(t, "link", "set", "far", "arp", "on")
	start := time.Now()
	x.step("backend < S. 0 ack 1 mss 1460")
	if took := time.Since(start); took > atOnce {
		t.Errorf("answer %v after the host's", took)
	}
	x.step("guest > . 1 ack 1")
	if c, err := l.Accept(); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	x.step("backend < F. 1 ack 1")
}
