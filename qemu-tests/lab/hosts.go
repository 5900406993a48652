// Package lab sets up what a guest test needs around the guest: two test hosts, the servers on one of them, and the backend
// under test on the other.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/factory"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// Addresses of the two hosts. The backend takes the guest's addresses and gateways from VMHost's.
const (
	VMHost4, VMHost6   = "10.77.0.1", "fd77::1"
	Gateway4, Gateway6 = "10.77.0.2", "fd77::2" // second addresses of Peer
	Peer4, Peer6       = "10.77.0.3", "fd77::3"
	PeerName           = "peer.lab.test" // resolves to Peer4 and Peer6
)

// Lab is a pair of hosts, joined by a link: VMHost, where the backend and the guest run, and Peer. It exists only inside this
// process and ends with it.
type Lab struct {
	Tree         *factory.Tree
	VMHost, Peer *sandbox.NetNS
	Servers      *peer.Peer
	// Dir is a folder that Lab's user may fill; every process of the lab sees it.
	Dir     string
	scratch int
}

// New sets up the hosts. dir must be short: the paths of sockets below it are limited to 107 bytes.
func New(ctx context.Context, tree *factory.Tree, dir string) (*Lab, error) {
	l := &Lab{Tree: tree, Dir: dir}
	err := l.setUp(ctx)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("set up the test hosts: %w", err)
	}
	return l, nil
}

func (l *Lab) setUp(ctx context.Context) (err error) {
	// The backend runs as another user if it can.
	if err := os.Chmod(l.Dir, 0o777); err != nil {
		return err
	}
	if l.VMHost, err = sandbox.NewNetNS(); err != nil {
		return err
	}
	if l.Peer, err = sandbox.NewNetNS(); err != nil {
		return err
	}
	if err := l.ip(ctx, l.VMHost, `link add v0 type veth peer name v1 netns /proc/self/fd/3
		addr add `+VMHost4+`/24 dev v0
		addr add `+VMHost6+`/64 dev v0 nodad
		link set v0 up mtu 9000
		link set lo up`); err != nil {
		return err
	}
	// The peer's own address comes first, so that it is the source of what the peer sends.
	if err := l.ip(ctx, l.Peer, `addr add `+Peer4+`/24 dev v1
		addr add `+Gateway4+`/24 dev v1
		addr add `+Gateway6+`/64 dev v1 nodad
		addr add `+Peer6+`/64 dev v1 nodad
		link set v1 up mtu 9000
		link set lo up`); err != nil {
		return err
	}
	if err := l.ip(ctx, l.VMHost, `route add default via `+Gateway4+`
		-6 route add default via `+Gateway6); err != nil {
		return err
	}
	// A user namespace knows one group only.
	if l.VMHost.WriteSysctl("net/ipv4/ping_group_range", "0 2147483647") != nil {
		if err := l.VMHost.WriteSysctl("net/ipv4/ping_group_range", "0 0"); err != nil {
			return err
		}
	}
	l.Servers, err = peer.Start(l.Peer, PeerName, []string{Peer4, Peer6})
	return err
}

// ip runs a batch of commands of the ip program in ns, with the peer's namespace as descriptor 3.
func (l *Lab) ip(ctx context.Context, ns *sandbox.NetNS, batch string) error {
	for line := range strings.Lines(batch) {
		c := l.Command(ns, append([]string{"ip"}, strings.Fields(line)...)...)
		c.Files = []*os.File{l.Peer.File()}
		if _, err := sandbox.Run(ctx, c); err != nil {
			return fmt.Errorf("ip %s: %w", strings.TrimSpace(line), err)
		}
	}
	return nil
}

// Command returns a command that runs a program of the tree on one of the hosts.
func (l *Lab) Command(ns *sandbox.NetNS, args ...string) sandbox.Command {
	l.scratch++
	scratch := filepath.Join(l.Dir, fmt.Sprintf("m%d", l.scratch))
	_ = os.Mkdir(scratch, 0o755) // if that fails, the mount says so
	return sandbox.Command{Args: args, Root: l.Tree.Root, Scratch: scratch, Share: []string{l.Dir}, Net: ns}
}

// Start starts a program of the tree on one of the hosts and lets it write to a file name.log in Dir.
func (l *Lab) Start(ctx context.Context, ns *sandbox.NetNS, name string, args ...string) (*sandbox.Process, error) {
	log, err := os.Create(filepath.Join(l.Dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := l.Command(ns, args...)
	c.Stdout, c.Stderr = log, log
	return sandbox.Start(ctx, c)
}

// Close ends the servers and gives up the hosts. Processes on them must have ended.
func (l *Lab) Close() {
	if l.Servers != nil {
		l.Servers.Close()
	}
	for _, ns := range []*sandbox.NetNS{l.VMHost, l.Peer} {
		if ns != nil {
			ns.Close()
		}
	}
}

// WaitFor calls ready until it says yes, for at most timeout.
func WaitFor(ctx context.Context, timeout time.Duration, what string, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for !ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), fmt.Errorf("not within %v", timeout)))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
