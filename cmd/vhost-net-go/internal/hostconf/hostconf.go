// Package hostconf reads what a guest's network is modelled on: the host's
// addresses, routes and resolvers.
//
// It only looks and never judges: a host without network, without default
// route, without IPv6 or with a resolver file that makes no sense gives a State
// with less in it, not an error. What is made of a State is decided elsewhere.
package hostconf

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"
)

// Family is what the host has in one address family. Interface is "" when no
// interface has a route.
type Family struct {
	// Interface is the template interface's name and MTU its MTU in bytes.
	Interface string
	MTU       int
	// Addr is its address with prefix length; invalid: it has none.
	Addr netip.Prefix
	// Peer is the other end's address of a point-to-point interface.
	Peer netip.Addr
	// DefaultRoute says that the host has one, Gateway its next hop; invalid:
	// the route leads straight to the interface, or to another family's hop.
	DefaultRoute bool
	Gateway      netip.Addr
}

// State is what was found. It is plain data.
type State struct {
	V4, V6 Family
	// HasIPv6 says that the kernel has IPv6 at all.
	HasIPv6 bool
	// Resolvers are the host's own, loopback addresses and zones included.
	// Without any in the file it is 127.0.0.1, as in resolv.conf(5).
	Resolvers []netip.Addr
	Search    []string
	// ULA is a prefix of 64 bits for a guest whose host has no IPv6 prefix to
	// copy: unique to this machine and the same after a restart.
	ULA netip.Prefix
	// LocalPorts are the ports that the kernel gives to outgoing connections,
	// first and last (ip_local_port_range, ip(7)).
	LocalPorts [2]uint16
	// Warning is one line for the log, or "".
	Warning string
}

// Source says where to look.
type Source struct {
	// Interface4 and Interface6 are the template interfaces; "" picks one.
	Interface4, Interface6 string
	// ResolvConf is the path of the resolver file, MachineID that of the
	// file that tells machines apart (machine-id(5)).
	ResolvConf, MachineID string
	// ReadResolvConf returns the content of the resolver file where the process
	// cannot open it itself; nil: it can. A file that does not exist is
	// fs.ErrNotExist.
	ReadResolvConf func() ([]byte, error)
}

// DefaultSource is where a Linux system keeps these files.
func DefaultSource() Source {
	return Source{ResolvConf: "/etc/resolv.conf", MachineID: "/etc/machine-id"}
}

// ErrNoInterface is wrapped when a Source's interface does not exist.
var ErrNoInterface = errors.New("there is no such interface")

// Read looks at the network namespace that the calling thread is in. The only
// error is an interface of src that does not exist.
func Read(src Source) (State, error) {
	r, err := look(src)
	switch {
	case err != nil:
		return State{}, err
	case r.tables != nil:
		r.Warning = fmt.Sprintf("cannot read the host's network, the guest gets a private one: %v", r.tables)
	case !r.V4.Addr.IsValid() && !r.V6.Addr.IsValid():
		r.Warning = "the host has no network, the guest gets a private one"
	case r.resolvers != nil:
		r.Warning = fmt.Sprintf("cannot read the host's resolvers: %v", r.resolvers)
	}
	return r.State, nil
}

// reading is a State, and why it has less in it than there may be. It has no
// Warning.
type reading struct {
	State
	tables, resolvers error
}

func look(src Source) (r reading, err error) {
	r.HasIPv6 = hasIPv6()
	t, err := readTables()
	r.tables = err
	for _, name := range []string{src.Interface4, src.Interface6} {
		if _, ok := t.linkNamed(name); !ok && name != "" && err == nil {
			return reading{}, fmt.Errorf("%q: %w", name, ErrNoInterface)
		}
	}
	r.V4 = t.family(unix.AF_INET, src.Interface4)
	r.V6 = t.family(unix.AF_INET6, src.Interface6)
	r.LocalPorts = localPorts()
	r.ULA = machineULA(src.MachineID)
	text, err := src.readResolvConf()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.resolvers = err
	}
	r.Resolvers, r.Search = ParseResolvConf(text)
	return r, nil
}

func (s Source) readResolvConf() ([]byte, error) {
	if s.ReadResolvConf != nil {
		return s.ReadResolvConf()
	}
	return os.ReadFile(s.ResolvConf)
}

// localPorts reads the range from the kernel; unreadable, it is that of RFC 6335
// section 6.
func localPorts() [2]uint16 {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		var p [2]uint16
		if _, err = fmt.Sscan(string(text), &p[0], &p[1]); err == nil && p[0] <= p[1] {
			return p
		}
	}
	return [2]uint16{49152, 65535}
}

func hasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// readTables takes one dump each of links, addresses and routes.
func readTables() (tables, error) {
	conn, err := rtnetlink.Dial(nil)
	if err != nil {
		return tables{}, fmt.Errorf("open netlink: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var t tables
	if t.links, err = conn.Link.List(); err != nil {
		return tables{}, fmt.Errorf("list links: %w", err)
	}
	if t.addrs, err = conn.Address.List(); err != nil {
		return tables{}, fmt.Errorf("list addresses: %w", err)
	}
	if t.routes, err = conn.Route.List(); err != nil {
		return tables{}, fmt.Errorf("list routes: %w", err)
	}
	return t, nil
}
