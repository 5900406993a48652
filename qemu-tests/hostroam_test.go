package qemutests

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// lan is one of the networks that a roaming host is in, with the machine at the other end.
type lan struct {
	name       string
	up, down   []string // on the host
	resolver   string
	far4, far6 string // of the same machine
}

// roamSetUp gives the far machine addresses in all networks.
func roamSetUp() (h uplinkHost, office, cafe lan) {
	h = uplinkHost{
		name: "roaming", resolv: "nameserver 10.77.0.3\nnameserver 2001:db8:77::3\n", guest4: "10.77.0.1/24", guest6: "2001:db8:77::1",
		host: []string{"link set lo up", "link add v0 type veth peer name v1 netns /proc/self/fd/3", "link set v0 up"},
		far: []string{
			"link set v1 up", "link set lo up", "addr add 10.77.0.3/24 dev v1", "addr add 10.88.0.3/24 dev v1",
			"addr add 2001:db8:77::3/64 dev v1 nodad", "addr add 2001:db8:88::3/64 dev v1 nodad",
			"addr add 203.0.113.3/32 dev lo", "addr add 2001:db8:f::3/128 dev lo", // the internet
		},
	}
	office = lan{
		name: "office", resolver: "10.77.0.3", far4: "203.0.113.3", far6: "2001:db8:f::3",
		up: []string{
			"addr add 10.77.0.1/24 dev v0", "addr add 2001:db8:77::1/64 dev v0 nodad",
			"route add default via 10.77.0.3", "route add ::/0 via 2001:db8:77::3",
		},
		down: []string{"addr del 10.77.0.1/24 dev v0", "addr del 2001:db8:77::1/64 dev v0", "route del ::/0 via 2001:db8:77::3"},
	}
	cafe = lan{
		name: "café", resolver: "10.88.0.3", far4: "203.0.113.3", far6: "2001:db8:f::3",
		up: []string{
			"addr add 10.88.0.9/24 dev v0", "addr add 2001:db8:88::9/64 dev v0 nodad",
			"route add default via 10.88.0.3", "route add ::/0 via 2001:db8:88::3",
		},
		down: []string{"addr del 10.88.0.9/24 dev v0", "addr del 2001:db8:88::9/64 dev v0", "route del ::/0 via 2001:db8:88::3"},
	}
	h.host = append(h.host, office.up...)
	return h, office, cafe
}

// roamer is the guest's view: it was configured once, and keeps its sockets.
type roamer struct {
	*matrixRig
	h         uplinkHost
	resolvers []netip.Addr // as it was told in the beginning
	udp4      net.Conn
	udp6      net.Conn
}

// TestHostRoams moves the host to another network and back, and takes all networks away, under a guest that notices nothing of
// it: it keeps its address, its resolvers and its datagram sockets.
func TestHostRoams(t *testing.T) {
	ctx, l := newLab(t, time.Minute)
	if machine.Backend.InTree {
		t.Skip("the daemon's log and start are this project's")
	}
	h, office, cafe := roamSetUp()
	r := &roamer{matrixRig: newMatrixRig(ctx, t, l, h), h: h}
	r.serveInternet()
	r.configure()
	r.check(office)
	for i, to := range []lan{cafe, office} {
		from := []lan{office, cafe}[i]
		r.move(from.down, to.up, to.resolver, []resolvChange{renamed, linked}[i])
		r.check(to)
	}
	// A host that sleeps: nothing is left, not even resolvers, and then everything is as before.
	r.move(office.down, []string{"link set v0 down"}, "", rewritten)
	time.Sleep(500 * time.Millisecond)
	r.move([]string{"link set v0 up"}, office.up, office.resolver, linked)
	r.check(office)
	r.move(office.down, cafe.up, cafe.resolver, renamed)
	r.check(cafe)
	if n, log := r.warnings(); n > 0 {
		t.Errorf("%d warnings:\n%s", n, log)
	}
}

// serveInternet echoes datagrams from the address that was asked.
func (r *roamer) serveInternet() {
	r.Helper()
	for _, a := range []string{"203.0.113.3", "2001:db8:f::3"} {
		p, err := r.lab.Peer.ListenPacket("udp", net.JoinHostPort(a, fmt.Sprint(internetPort)))
		r.must(err)
		r.Cleanup(func() { p.Close() })
		go packetEach(p, func(b []byte) []byte { return b })
	}
}

const internetPort = 17

func (r *roamer) configure() {
	r.Helper()
	var g matrixGuest
	for _, c := range []column{{"DHCP", checkDHCP}, {"RA", checkRA}, {"DHCPv6", checkDHCPv6}} {
		if _, err := c.check(r.matrixRig, r.h, &g); err != nil {
			r.Fatalf("%s: %v", c.name, err)
		}
	}
	r.resolvers = append(g.lease4.DNS, g.ra.DNS...)
	if len(r.resolvers) != 2 {
		r.Fatalf("resolvers %v", r.resolvers)
	}
	var err error
	r.udp4, err = r.guest.DialUDP(at("203.0.113.3", internetPort))
	r.must(err)
	r.udp6, err = r.guest.DialUDP(at("2001:db8:f::3", internetPort))
	r.must(err)
}

// resolvChange is a way in which programs change the resolver file: a script with the folder and the text.
type resolvChange string

const (
	rewritten resolvChange = "printf '%[2]s' >%[1]s/resolv.conf"
	// A new file takes the old one's place, as NetworkManager does it.
	renamed resolvChange = "printf '%[2]s' >%[1]s/new && mv -T %[1]s/new %[1]s/resolv.conf"
	// A link to another file in a folder that was not there before takes its place.
	linked resolvChange = "d=$(mktemp -d %[1]s/dXXXXXX) && chmod 755 $d && printf '%[2]s' >$d/resolv.conf && " +
		"ln -s ${d##*/}/resolv.conf %[1]s/new && mv -T %[1]s/new %[1]s/resolv.conf"
)

// move takes one network away and adds another.
func (r *roamer) move(down, up []string, resolver string, how resolvChange) {
	r.Helper()
	r.ip(r.lab.VMHost, down)
	r.ip(r.lab.VMHost, up)
	text := ""
	if resolver != "" {
		text = "nameserver " + resolver + "\n"
	}
	// The daemon's file system is its own: its process is the way in.
	pid, err := r.daemon.PID()
	r.must(err)
	script := fmt.Sprintf(string(how), fmt.Sprintf("/proc/%d/root/etc", pid), strings.ReplaceAll(text, "\n", `\n`))
	c := sandbox.Command{Args: []string{"sh", "-c", script}}
	_, err = sandbox.Run(r.ctx, c)
	r.must(err)
}

// check demands that all works within 5 s, with a new query and a new connection as well as with the sockets of the beginning.
func (r *roamer) check(n lan) {
	r.Helper()
	start := time.Now()
	query := append([]byte{0x12, 0x34, 1, 0}, "question"...)
	for _, c := range []struct {
		what string
		try  func() error
	}{
		{"UDP socket of IPv4", func() error { return tryUDP(r.udp4, []byte("hello"), []byte("hello")) }},
		{"UDP socket of IPv6", func() error { return tryUDP(r.udp6, []byte("hello"), []byte("hello")) }},
		{"first resolver", func() error { return r.ask(r.resolvers[0], query) }},
		{"second resolver", func() error { return r.ask(r.resolvers[1], query) }},
		{"ping", func() error { return r.guest.Ping(r.within(500*time.Millisecond), netip.MustParseAddr(n.far4)) }},
		{"TCP", func() error { return r.connect(n.far4) }},
		{"TCP by IPv6", func() error { return r.connect(n.far6) }},
	} {
		var err error
		for {
			if err = c.try(); err == nil || time.Since(start) > 5*time.Second {
				break
			}
		}
		if err != nil {
			_, log := r.warnings()
			r.Fatalf("in the %s, %s: %v\n%s", n.name, c.what, err, log)
		}
	}
	note(r.T, "in the %s all works after %v", n.name, time.Since(start).Round(time.Millisecond))
}

func (r *roamer) ask(resolver netip.Addr, query []byte) error {
	c, err := r.guest.DialUDP(netip.AddrPortFrom(resolver, 53))
	if err != nil {
		return err
	}
	defer c.Close()
	return tryUDP(c, query, answerOf(query, "far"))
}

func (r *roamer) connect(to string) error {
	c, err := r.guest.Dial(r.within(time.Second), at(to, echoPort), 0)
	if err != nil {
		return err
	}
	defer c.Close()
	return exchange(c, []byte("hello"), []byte("hello"))
}

// tryUDP asks once, on a socket that stays open.
func tryUDP(c net.Conn, out, want []byte) error {
	_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := c.Write(out); err != nil {
		return err
	}
	b := make([]byte, len(want)+1)
	n, err := c.Read(b)
	if err == nil && string(b[:n]) != string(want) {
		return errors.New("not the answer")
	}
	return err
}
