// Package stage sets a backend up for measurement by a synthetic guest: two
// hosts as network namespaces, the backend as a process on one of them, and
// sockets on the other.
//
// It needs the right to make network namespaces. All that it makes ends with
// the process.
package stage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// Addresses of the two hosts. The guest has the address of VM, and gateway is
// another address of the peer: passt leads its gateway's address elsewhere.
var (
	VMAddr   = netip.MustParseAddr("10.77.0.1")
	Gateway  = netip.MustParseAddr("10.77.0.2")
	PeerAddr = netip.MustParseAddr("10.77.0.3")
)

// Stage is a pair of hosts joined by a link.
type Stage struct {
	// VM is where the backend runs, Peer the world that it reaches.
	VM, Peer *sandbox.NetNS
	// Dir holds sockets and logs; anyone may write there.
	Dir string

	backends int
}

// linkMTU is that of the link between the hosts. Both ends take frames of
// 64 KiB from each other in any case.
const linkMTU = "9000"

// New makes the hosts. Close removes what is left of them.
func New(ctx context.Context) (*Stage, error) {
	s, err := new(Stage), error(nil)
	if s.Dir, err = os.MkdirTemp("/tmp", "stage-"); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	if err := s.setUp(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("set up two hosts: %w", err)
	}
	return s, nil
}

func (s *Stage) setUp(ctx context.Context) (err error) {
	if err := os.Chmod(s.Dir, 0o777); err != nil {
		return err
	}
	for _, ns := range []**sandbox.NetNS{&s.VM, &s.Peer} {
		if *ns, err = sandbox.NewNetNS(); err != nil {
			return err
		}
	}
	if err := s.ip(ctx, s.VM,
		"link add v0 type veth peer name v1 netns /proc/self/fd/3",
		"addr add "+VMAddr.String()+"/24 dev v0",
		"link set v0 up mtu "+linkMTU,
		"link set lo up",
	); err != nil {
		return err
	}
	if err := s.ip(ctx, s.Peer,
		"addr add "+PeerAddr.String()+"/24 dev v1",
		"addr add "+Gateway.String()+"/24 dev v1",
		"link set v1 up mtu "+linkMTU,
		"link set lo up",
	); err != nil {
		return err
	}
	if err := s.ip(ctx, s.VM, "route add default via "+Gateway.String()); err != nil {
		return err
	}
	for _, ns := range []*sandbox.NetNS{s.VM, s.Peer} {
		for _, setting := range []string{
			"net/ipv4/ip_local_port_range=10000 65535",
			"net/core/somaxconn=65535",
			"net/ipv4/tcp_max_syn_backlog=65535",
		} {
			path, value, _ := strings.Cut(setting, "=")
			if err := ns.WriteSysctl(path, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// ip runs commands of the ip program in ns, with the peer's namespace as
// descriptor 3.
func (s *Stage) ip(ctx context.Context, ns *sandbox.NetNS, lines ...string) error {
	path, err := exec.LookPath("ip")
	if err != nil {
		path = "/sbin/ip"
	}
	for _, line := range lines {
		c := sandbox.Command{Args: append([]string{path}, strings.Fields(line)...), Net: ns, Files: []*os.File{s.Peer.File()}}
		if _, err := sandbox.Run(ctx, c); err != nil {
			return fmt.Errorf("ip %s: %w", line, err)
		}
	}
	return nil
}

// Close gives the hosts up. Backends must have been stopped.
func (s *Stage) Close() error {
	var errs []error
	for _, ns := range []*sandbox.NetNS{s.VM, s.Peer} {
		if ns != nil {
			errs = append(errs, ns.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(s.Dir))...)
}

// RaiseFiles lets this process, and those it starts, have n descriptors each, or
// as many as it may, and returns how many that is.
func RaiseFiles(n int) (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("read the limit of descriptors: %w", err)
	}
	want := syscall.Rlimit{Cur: max(uint64(n), l.Cur), Max: max(uint64(n), l.Max)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &want); err == nil {
		return int(want.Cur), nil
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("raise the limit of descriptors to %d: %w", l.Max, err)
	}
	return int(l.Cur), nil
}
