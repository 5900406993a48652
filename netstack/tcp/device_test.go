package tcp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// TestDevice: connections to the outside leave by the interface, and from the
// address, that are asked for, those to the host's loopback as ever.
func TestDevice(t *testing.T) {
	outside, inside := header.AddrFromNetip(netip.MustParseAddr("198.51.100.1")), header.AddrFromNetip(netip.MustParseAddr("127.0.0.1"))
	for name, change := range map[string]struct {
		change func(*Config)
		want   hostsock.Errno
	}{
		"interface": {func(c *Config) { c.Device4 = hostsock.DeviceNamed("no-such-if") }, unix.ENODEV},
		"address":   {func(c *Config) { c.Outbound4 = outside }, hostsock.EADDRNOTAVAIL},
	} {
		w := newWorld(t, setup{})
		change.change(&w.h.cfg)
		if fd, errno := w.h.startConnect(outside, 1); errno != change.want {
			t.Errorf("%s: descriptor %d, error %v, want %v", name, fd, errno, change.want)
		}
		fd, errno := w.h.startConnect(inside, 1)
		if errno == change.want {
			t.Errorf("%s, to the loopback: %v", name, errno)
		}
		hostsock.Close(fd)
	}
}
