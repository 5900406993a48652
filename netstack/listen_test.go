package netstack_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

var lo4 = netip.MustParseAddr("127.77.1.1")

// worker makes a worker with rules, and lets the test end it.
func forwarding(t *testing.T, change func(*netstack.Config), rules ...forward.Rule) (*netstack.Worker, error) {
	t.Helper()
	cfg := testConfig()
	cfg.Forwards = rules
	if change != nil {
		change(&cfg)
	}
	w, err := netstack.NewWorker(cfg, func(bool, error) {})
	if err == nil {
		t.Cleanup(w.Close)
	}
	return w, err
}

func rules(t *testing.T, proto forward.Proto, spec string) []forward.Rule {
	t.Helper()
	r, err := forward.ParseSpec(proto, spec)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func dials(t *testing.T, network string, port uint16) error {
	t.Helper()
	c, err := net.Dial(network, fmt.Sprintf("127.77.1.1:%d", port))
	if err == nil {
		c.Close()
	}
	return err
}

// TestAnyPort: the kernel chooses, and the choice can be asked for.
func TestAnyPort(t *testing.T) {
	w, err := forwarding(t, nil, append(rules(t, forward.TCP, "127.77.1.1/0:22"), rules(t, forward.UDP, "127.77.1.1/0:53")...)...)
	if err != nil {
		t.Fatal(err)
	}
	got := w.Forwards()
	if len(got) != 2 || got[0].TargetFirstPort != 22 || got[1].TargetFirstPort != 53 {
		t.Fatalf("forwards %v", got)
	}
	for _, f := range got {
		if f.AnyPort() || f.FirstPort != f.LastPort || f.Open != 1 {
			t.Errorf("no port was chosen: %+v", f)
		}
	}
	if err := dials(t, "tcp4", got[0].FirstPort); err != nil {
		t.Error(err)
	}
}

// TestEveryPort: "all" takes what the ports that are named, and others, leave.
func TestEveryPort(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.77.1.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := netip.MustParseAddrPort(taken.Addr().String()).Port()
	first, last := port-5, port+5
	named := rules(t, forward.TCP, fmt.Sprintf("127.77.1.1/%d:22", port+1))
	all := rules(t, forward.TCP, fmt.Sprintf("127.77.1.1/~1-%d,~%d-65535,~%d", first-1, last+1, port+2))
	w, err := forwarding(t, nil, append(all, named...)...)
	if err != nil {
		t.Fatal(err)
	}
	got := w.Forwards()
	if len(got) != 2 || got[0].BestEffort || !got[1].BestEffort {
		t.Fatalf("forwards %v", got)
	}
	if got[1].Open < 1 || got[1].Open > 8 {
		t.Errorf("%d ports are open of 11, of which one is taken, one named and one excluded", got[1].Open)
	}
	if err := dials(t, "tcp4", port+1); err != nil {
		t.Errorf("the named port: %v", err)
	}
	if err := dials(t, "tcp4", port+2); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("the excluded port: %v", err)
	}
}

func TestRulesThatCannotBeMet(t *testing.T) {
	taken, err := net.ListenPacket("udp4", "127.77.1.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.LocalAddr().(*net.UDPAddr).Port
	for _, tt := range []struct {
		proto forward.Proto
		spec  string
		is    error
		want  string
	}{
		{forward.UDP, fmt.Sprintf("127.77.1.1/%d", port), unix.EADDRINUSE, fmt.Sprintf("forward udp 127.77.1.1/%d: bind to", port)},
		{forward.UDP, fmt.Sprintf("127.77.1.1/~1-%d,~%d-65535", port-1, port+1), unix.EADDRINUSE, "none of the ports can be had"},
		{forward.TCP, "192.0.2.77/8080-8081", unix.EADDRNOTAVAIL, "forward tcp 192.0.2.77/8080-8081: port 8080: bind"},
		{forward.TCP, "%no-such-if/8080", unix.ENODEV, "forward tcp *%no-such-if/8080: bind to interface no-such-if"},
	} {
		_, err := forwarding(t, nil, rules(t, tt.proto, tt.spec)...)
		open := new(forward.OpenError)
		if !errors.As(err, &open) || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.spec, err, tt.want)
		}
	}
	if _, err := forwarding(t, func(c *netstack.Config) { c.FreeBind = true }, rules(t, forward.TCP, "192.0.2.77/8080")...); err != nil {
		t.Errorf("with free bind: %v", err)
	}
}

// TestInheritedSockets: a socket that was handed over serves its rule.
func TestInheritedSockets(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: lo4.As4()}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	in, err := hostsock.Inspect(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := in.Local.Port()
	w, err := forwarding(t, func(c *netstack.Config) {
		c.Sockets = []netstack.InheritedSocket{{FD: fd, Inherited: in}}
	}, rules(t, forward.TCP, fmt.Sprintf("127.77.1.1/%d:22", port))...)
	if err != nil {
		t.Fatal(err) // the port would be in use
	}
	if got := w.Forwards(); len(got) != 1 || got[0].Open != 1 {
		t.Errorf("forwards %v", got)
	}
	if err := dials(t, "tcp4", port); err != nil {
		t.Error(err)
	}
}
