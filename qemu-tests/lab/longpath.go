package lab

import (
	"context"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/longpath"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// LongPath puts a long path in the place of the link between the hosts, before anything uses that. Sockets of both hosts may
// have buffers of up to bufferBytes, and forget what they learned about the path of earlier connections. The path is closed
// by the caller, before the lab.
func (l *Lab) LongPath(ctx context.Context, c longpath.Config, mtu, bufferBytes int) (*longpath.Path, error) {
	if err := l.ip(ctx, l.VMHost, "link del v0"); err != nil {
		return nil, err
	}
	p, err := longpath.New(longpath.End{NS: l.VMHost, Device: "v0"}, longpath.End{NS: l.Peer, Device: "v1"}, c)
	if err != nil {
		return nil, err
	}
	if err := l.setUpLongPath(ctx, mtu, bufferBytes); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (l *Lab) setUpLongPath(ctx context.Context, mtu, bufferBytes int) error {
	up := fmt.Sprintf(" up mtu %d txqueuelen 10000", mtu)
	for _, host := range []struct {
		ns    *sandbox.NetNS
		batch string
	}{
		{l.VMHost, "addr add " + VMHost4 + "/24 dev v0\naddr add " + VMHost6 + "/64 dev v0 nodad\nlink set v0" + up +
			"\nroute add default via " + Gateway4 + "\n-6 route add default via " + Gateway6},
		{l.Peer, "addr add " + Peer4 + "/24 dev v1\naddr add " + Gateway4 + "/24 dev v1\naddr add " + Gateway6 +
			"/64 dev v1 nodad\naddr add " + Peer6 + "/64 dev v1 nodad\nlink set v1" + up},
	} {
		if err := l.ip(ctx, host.ns, host.batch); err != nil {
			return err
		}
		for path, value := range map[string]string{
			"net/ipv4/tcp_rmem":            fmt.Sprintf("4096 131072 %d", bufferBytes),
			"net/ipv4/tcp_wmem":            fmt.Sprintf("4096 16384 %d", bufferBytes),
			"net/ipv4/tcp_no_metrics_save": "1",
		} {
			if err := host.ns.WriteSysctl(path, value); err != nil {
				return err
			}
		}
	}
	return nil
}
