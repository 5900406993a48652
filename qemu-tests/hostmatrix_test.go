package qemutests

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/autoconf"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// column is one thing to check on each host.
type column struct {
	name  string
	check func(*matrixRig, uplinkHost, *matrixGuest) (string, error)
}

// matrixGuest is what the guest was told.
type matrixGuest struct {
	lease4, lease6 autoconf.Lease
	ra             autoconf.Advertisement
}

func columns() []column {
	return []column{
		{"DHCP", checkDHCP},
		{"RA", checkRA},
		{"DHCPv6", checkDHCPv6},
		{"DNS", checkDNS},
		{"ping", checkPing},
		{"TCP", checkTCP},
		{"UDP", checkUDP},
		{"forward in", checkForward},
	}
}

// TestHostMatrix runs the daemon on hosts of all kinds. It always starts, complains at most once, gives the guest addresses of
// both families, and lets it reach what the host reaches.
func TestHostMatrix(t *testing.T) {
	ctx, l := newLab(t, 2*time.Minute)
	if machine.Backend.InTree {
		t.Skip("the daemon's log and start are this project's")
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "host")
	for _, c := range columns() {
		fmt.Fprint(w, "\t"+c.name)
	}
	fmt.Fprintln(w, "\twarnings")
	for _, h := range uplinkHosts() {
		t.Run(h.name, func(t *testing.T) {
			r := newMatrixRig(ctx, t, l, h)
			fmt.Fprint(w, h.name)
			var g matrixGuest
			for _, c := range columns() {
				text, err := c.check(r, h, &g)
				if err != nil {
					text = "FAIL"
					t.Errorf("%s: %v", c.name, err)
				}
				fmt.Fprint(w, "\t"+text)
			}
			n, log := r.warnings()
			fmt.Fprintf(w, "\t%d\n", n)
			if n > 1 || t.Failed() {
				t.Errorf("%d warnings, at most one is right; the daemon's log:\n%s", n, log)
			}
		})
	}
	w.Flush()
	note(t, "what guests get on hosts of all kinds (4: IPv4, 6: IPv6, -: the host has no way there either)\n%s", table.String())
}

func (r *matrixRig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.ctx, d)
	r.Cleanup(cancel)
	return ctx
}

func checkDHCP(r *matrixRig, h uplinkHost, g *matrixGuest) (string, error) {
	var err error
	if g.lease4, err = r.conf.DHCP(r.within(5 * time.Second)); err != nil {
		return "", err
	}
	want := h.guest4
	if want == "" {
		want = "169.254.2.1/16"
	}
	if g.lease4.Addr.String() != want || !g.lease4.Router.IsValid() {
		return "", fmt.Errorf("got %+v, want %s and a router", g.lease4, want)
	}
	return "ok", r.guest.AddAddress(g.lease4.Addr, g.lease4.Router)
}

func checkRA(r *matrixRig, h uplinkHost, g *matrixGuest) (string, error) {
	if h.noIPv6 {
		if _, err := r.conf.RA(r.within(300 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			return "", fmt.Errorf("a router where IPv6 is impossible: %w", err)
		}
		return "-", nil
	}
	var err error
	if g.ra, err = r.conf.RA(r.within(5 * time.Second)); err != nil {
		return "", err
	}
	if want := wantPrefix(h); !g.ra.Managed || g.ra.DefaultRouter != h.hasDefault6() || g.ra.Prefix.Bits() != 64 || !want(g.ra.Prefix.Addr()) {
		return "", fmt.Errorf("got %+v", g.ra)
	}
	return "ok", nil
}

// hasDefault6 says whether the host has an IPv6 default route.
func (h uplinkHost) hasDefault6() bool {
	all := strings.Join(h.host, "\n")
	return strings.Contains(all, "add default via fe80::") || strings.Contains(all, "add ::/0")
}

// wantPrefix tells addresses of the host's prefix, or else unique local ones.
func wantPrefix(h uplinkHost) func(netip.Addr) bool {
	if h.guest6 != "" {
		return netip.MustParsePrefix("2001:db8:77::/64").Contains
	}
	return netip.MustParsePrefix("fd00::/8").Contains
}

func checkDHCPv6(r *matrixRig, h uplinkHost, g *matrixGuest) (string, error) {
	if h.noIPv6 {
		return "-", nil
	}
	var err error
	if g.lease6, err = r.conf.DHCPv6(r.within(5 * time.Second)); err != nil {
		return "", err
	}
	if a := g.lease6.Addr.Addr(); h.guest6 != "" && a.String() != h.guest6 || !g.ra.Prefix.Contains(a) {
		return "", fmt.Errorf("got %v, want %s in %v", a, h.guest6, g.ra.Prefix)
	}
	// The router of the advertisement, whether it is a default one or not: what is not reached shows then.
	return "ok", r.guest.AddAddress(netip.PrefixFrom(g.lease6.Addr.Addr(), 64), g.ra.Router)
}

// checkDNS asks all resolvers that the guest was told of.
func checkDNS(r *matrixRig, h uplinkHost, g *matrixGuest) (string, error) {
	if h.noLoopback {
		return "-", nil
	}
	if fmt.Sprint(g.ra.DNS) != fmt.Sprint(g.lease6.DNS) {
		return "", fmt.Errorf("router advertisement and DHCPv6 differ: %v, %v", g.ra.DNS, g.lease6.DNS)
	}
	all := append(g.lease4.DNS, g.ra.DNS...)
	if len(all) == 0 {
		return "", errors.New("none announced")
	}
	name := "far"
	if h.stub != "" {
		name = "stub"
	}
	query := append([]byte{0x12, 0x34, 1, 0}, strings.Repeat("q", 600)...)
	answer := answerOf(query, name)
	framed := func(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }
	for _, a := range all {
		u, err := r.guest.DialUDP(netip.AddrPortFrom(a, 53))
		if err != nil {
			return "", err
		}
		if err := exchangeUDP(u, query, answer); err != nil {
			return "", fmt.Errorf("UDP to %v: %w", a, err)
		}
		c, err := r.guest.Dial(r.within(3*time.Second), netip.AddrPortFrom(a, 53), 0)
		if err != nil {
			return "", err
		}
		if err := exchange(c, framed(query), framed(answer)); err != nil {
			return "", fmt.Errorf("TCP to %v: %w", a, err)
		}
		c.Close()
	}
	return families(len(g.lease4.DNS) > 0, len(g.ra.DNS) > 0), nil
}

func families(v4, v6 bool) string {
	switch {
	case v4 && v6:
		return "4+6"
	case v4:
		return "4"
	case v6:
		return "6"
	}
	return "-"
}

// each runs check for the far machine's addresses that the host can reach.
func (r *matrixRig) each(h uplinkHost, check func(a string) error) (string, error) {
	for a, is := range map[string]bool{far4: h.far4, far6: h.far6} {
		if !is {
			continue
		}
		if err := check(a); err != nil {
			return "", fmt.Errorf("%s: %w", a, err)
		}
	}
	return families(h.far4, h.far6), nil
}

func checkPing(r *matrixRig, h uplinkHost, _ *matrixGuest) (string, error) {
	return r.each(h, func(a string) error { return r.guest.Ping(r.within(3*time.Second), netip.MustParseAddr(a)) })
}

func checkTCP(r *matrixRig, h uplinkHost, _ *matrixGuest) (string, error) {
	return r.each(h, func(a string) error {
		c, err := r.guest.Dial(r.within(3*time.Second), at(a, echoPort), 0)
		if err != nil {
			return err
		}
		defer c.Close()
		return exchange(c, []byte("hello"), []byte("hello"))
	})
}

func checkUDP(r *matrixRig, h uplinkHost, _ *matrixGuest) (string, error) {
	return r.each(h, func(a string) error {
		c, err := r.guest.DialUDP(at(a, echoPort))
		if err != nil {
			return err
		}
		return exchangeUDP(c, []byte("hello"), []byte("hello"))
	})
}

// exchangeUDP tries again: the first datagram may wait for an address to resolve.
func exchangeUDP(c net.Conn, out, want []byte) (err error) {
	defer c.Close()
	b := make([]byte, len(want)+1)
	for range 3 {
		_ = c.SetDeadline(time.Now().Add(time.Second))
		if _, err = c.Write(out); err != nil {
			return err
		}
		var n int
		if n, err = c.Read(b); err == nil {
			if string(b[:n]) != string(want) {
				return fmt.Errorf("got %d bytes %q", n, b[:n])
			}
			return nil
		}
	}
	return err
}

// checkForward connects to the guest's server from the host's loopback, and from the far machine if there is a way.
func checkForward(r *matrixRig, h uplinkHost, g *matrixGuest) (string, error) {
	if h.noLoopback {
		return "-", nil
	}
	for _, v6 := range []bool{false, true} {
		if v6 && h.no6 {
			continue
		}
		l, err := r.guest.Listen(v6, 22)
		if err != nil {
			return "", err
		}
		defer l.Close()
		go echoGuest(l)
	}
	type place struct {
		far bool
		to  string
		is  bool
	}
	for _, p := range []place{
		{false, "127.0.0.1", true},
		{false, "::1", !h.no6},
		{true, "10.77.0.1", h.far4},
		{true, h.guest6, h.far6},
	} {
		if !p.is {
			continue
		}
		ns := r.lab.VMHost
		if p.far {
			ns = r.lab.Peer
		}
		err := ns.Do(func() error {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(p.to, fmt.Sprint(forwardPort)), 3*time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			return exchange(c, []byte("hello"), []byte("hello"))
		})
		if err != nil {
			return "", fmt.Errorf("to %s, far %v: %w", p.to, p.far, err)
		}
	}
	return families(true, !h.no6), nil
}

func echoGuest(l *gvguest.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			b := make([]byte, 64)
			if n, err := c.Read(b); err == nil {
				_, _ = c.Write(b[:n])
			}
		}()
	}
}
