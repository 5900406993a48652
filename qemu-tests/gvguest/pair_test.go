package gvguest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// guestPort is what the host's forwarded ports lead to.
const guestPort = 7000

// family is an address family to test with.
type family struct {
	name     string
	loopback netip.Addr
	seen     netip.Addr // as the guest sees the loopback
}

var (
	ipv4Family = family{"IPv4", netip.MustParseAddr("127.0.0.1"), host4}
	ipv6Family = family{"IPv6", netip.IPv6Loopback(), host6}
)

func families() []family { return []family{ipv4Family, ipv6Family} }

// any port of the host's loopback.
func (f family) any() *net.TCPAddr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.loopback, 0)) }

func (f family) v6() bool { return f.loopback.Is6() }

// freePort returns a port that nobody listens on.
func freePort(t testing.TB, f family) uint16 {
	t.Helper()
	l, err := net.ListenTCP("tcp", f.any())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// route is a family and who begins: the guest, or the host.
type route struct {
	family
	inbound bool
}

func (r route) String() string {
	if r.inbound {
		return r.name + " inbound"
	}
	return r.name + " outbound"
}

func routes() []route {
	return []route{{ipv4Family, false}, {ipv6Family, false}, {ipv4Family, true}, {ipv6Family, true}}
}

// connector makes connections over one route. It is safe for concurrent use.
type connector struct {
	b       *bench
	r       route
	mu      sync.Mutex
	host    *net.TCPListener
	guest   *gvguest.Listener
	seen    netip.AddrPort // where the guest finds the host
	timeout time.Duration
}

// connector opens the listening end of a route. It ends with the test.
func (b *bench) connector(r route) *connector {
	b.Helper()
	c := &connector{b: b, r: r, timeout: patience}
	var err error
	if r.inbound {
		c.guest, err = b.guest.Listen(r.v6(), guestPort)
		b.must(err)
		return c
	}
	c.host, err = net.ListenTCP("tcp", r.any())
	b.must(err)
	c.seen = netip.AddrPortFrom(r.seen, c.host.Addr().(*net.TCPAddr).AddrPort().Port())
	return c
}

func (c *connector) close() {
	if c.host != nil {
		c.host.Close()
	}
	if c.guest != nil {
		c.guest.Close()
	}
}

// pair returns both ends of a new connection, with a deadline.
func (c *connector) pair() (*gvguest.Conn, *net.TCPConn, error) {
	g, h, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	g.SetTimeout(c.timeout)
	_ = h.SetDeadline(time.Now().Add(c.timeout))
	return g, h, nil
}

func (c *connector) open() (*gvguest.Conn, *net.TCPConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.r.inbound {
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		g, err := c.b.guest.Dial(ctx, c.seen, 0)
		if err != nil {
			return nil, nil, err
		}
		_ = c.host.SetDeadline(time.Now().Add(c.timeout))
		h, err := c.host.AcceptTCP()
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("host: %w", err), g.Abort())
		}
		return g, h, nil
	}
	h, err := c.b.dialGuest(c.r.family)
	if err != nil {
		return nil, nil, err
	}
	stop := time.AfterFunc(c.timeout, c.guest.Close)
	defer stop.Stop()
	g, err := c.guest.Accept()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("guest: %w", err), h.Close())
	}
	return g, h, nil
}

// dialGuest connects the host to the forwarded port.
func (b *bench) dialGuest(f family) (*net.TCPConn, error) {
	return net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.loopback, b.ports[f])))
}
