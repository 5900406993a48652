package icmp

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// routed connects the test's namespace to a router in another one, which would
// send everything back.
func routed(t *testing.T) {
	t.Helper()
	pingHost(t, everybody)
	router := fmt.Sprintf("ping-test-%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("SKIP: ip %v: %v: %s", args, err, out)
		}
	}
	ip("netns", "add", router)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", router).Run() })
	ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", router)
	ip("addr", "add", "192.0.2.1/24", "dev", "near")
	ip("addr", "add", "2001:db8:1::1/64", "dev", "near", "nodad")
	ip("link", "set", "near", "up")
	ip("-n", router, "addr", "add", "192.0.2.2/24", "dev", "far")
	ip("-n", router, "addr", "add", "2001:db8:1::2/64", "dev", "far", "nodad")
	ip("-n", router, "link", "set", "far", "up")
	ip("route", "add", "default", "via", "192.0.2.2")
	ip("-6", "route", "add", "default", "via", "2001:db8:1::2")
	ip("-n", router, "route", "add", "default", "via", "192.0.2.1")
	ip("-n", router, "-6", "route", "add", "default", "via", "2001:db8:1::1")
	for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		ip("netns", "exec", router, "sh", "-c", "echo 1 > /proc/sys/net/"+file)
	}
}

// TestTraceroute sends requests with a small TTL through a router: its answer
// must reach the guest, from it and about the guest's own request.
func TestTraceroute(t *testing.T) {
	routed(t)
	for _, tc := range []struct {
		guest, dst, hop header.Addr
		typ             byte
	}{
		{guest4, addr("198.51.100.1"), addr("192.0.2.2"), header.ICMPTimeExceeded},
		{guest6, addr("2001:db8:99::1"), addr("2001:db8:1::2"), header.ICMPv6TimeExceeded},
	} {
		x := newWorld(t)
		x.ping(tc.guest, tc.dst, 1, 4321, 7, pattern(32))
		m := x.receive()
		if m.typ != tc.typ || m.code != 0 || m.Src != tc.hop || m.Dst != tc.guest {
			t.Fatalf("got type %d, code %d from %v to %v", m.typ, m.code, m.Src, m.Dst)
		}
		quoted := append(make([]byte, header.EthLen), m.payload...)
		header.PutEth(quoted, header.MAC{}, header.MAC{}, m.EtherType)
		var q header.Packet
		if why := header.Parse(&q, quoted, len(quoted)); why != header.OK {
			t.Fatalf("quoted packet: %v", why)
		}
		b := quoted[q.L4:q.End]
		if q.Src != tc.guest || q.Dst != tc.dst || be.Uint16(b[4:6]) != 4321 || be.Uint16(b[6:8]) != 7 {
			t.Errorf("quoted %v > %v, id %d, seq %d", q.Src, q.Dst, be.Uint16(b[4:6]), be.Uint16(b[6:8]))
		}
		// The flow goes on: the router itself answers.
		x.ping(tc.guest, tc.hop, 64, 4321, 8, pattern(32))
		if m := x.receive(); m.seq != 8 || m.Src != tc.hop {
			t.Errorf("got %+v", m)
		}
	}
}
