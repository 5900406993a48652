// Package addrmap translates addresses between what the guest sees and what
// host sockets use, and drops packets whose addresses may not leave the guest.
//
// There is no address translation by default: a guest reaches 192.0.2.7 as
// 192.0.2.7. The exceptions are listed at [Map.FromGuest] and [Map.ToGuest].
//
// Security. The host's loopback is out of reach unless Config.HostLoopback asks
// for it; a packet that names a loopback address itself is always dropped. The
// host's other addresses stay reachable, as in passt: to connect to the host's
// LAN address is to connect to the host, and a service that listens there
// listens to the network. Whoever does not want that filters on the host.
//
// No method changes a Map, so it is safe for concurrent use; its owner may
// overwrite it with another one while nobody uses it. Nothing allocates.
package addrmap

import (
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Pair holds an address for each family; a zero address means none.
type Pair struct {
	V4, V6 netip.Addr
}

// Forward sends what the guest addresses to Seen, on the DNS ports, to the
// resolver Host. The families may differ. The zero Forward is off.
type Forward struct {
	Seen netip.Addr // as the guest sees it
	Host netip.Addr // where the host's resolver listens; loopback is allowed
}

// Config lists the mappings. Zero values are off.
type Config struct {
	// Own are our addresses towards the guest: the IPv4 gateway and our IPv6
	// link-local address. Peers that cannot be shown to the guest as they are
	// appear under these.
	Own Pair
	// Guest are the addresses assigned to the guest. The host may have the
	// same ones.
	Guest Pair
	// HostLoopback are addresses under which the guest reaches 127.0.0.1 and
	// ::1 of the host. Off by default.
	HostLoopback Pair
	// HostGuest are addresses under which the guest reaches the host's own
	// sockets on the addresses in Guest, which it cannot address itself.
	HostGuest Pair
	// DNS are the resolver redirections, at most MaxDNS per family of Seen.
	DNS []Forward
}

// MaxDNS is how many resolver redirections a family can have.
const MaxDNS = 16

// DNS ports that a Forward applies to: plain and over TLS.
const (
	portDNS = 53
	portDoT = 853
)

// v4Loopback and v6Loopback are what HostLoopback stands for.
var (
	v4Loopback = header.AddrFrom4([4]byte{127, 0, 0, 1})
	v6Loopback = header.Addr{15: 1}
)

// family holds the mappings whose guest side has one address family. An
// address that is not configured is the zero Addr, which never occurs in a
// packet that passed the martian check.
type family struct {
	own          header.Addr
	guest        header.Addr
	hostLoopback header.Addr
	hostGuest    header.Addr
	dns          [MaxDNS]redirect // the first numDNS
	numDNS       int
	loopback     header.Addr
}

// redirect is a Forward of which Seen is of this family.
type redirect struct{ seen, host header.Addr }

// Map is a compiled Config.
type Map struct {
	v4, v6 family
}

// New compiles c. An error names the address that is of the wrong family, may
// not appear in a packet, or is mapped twice.
func New(c Config) (*Map, error) {
	m := &Map{v4: family{loopback: v4Loopback}, v6: family{loopback: v6Loopback}}
	for _, f := range []struct {
		what string
		pair Pair
		dst  func(*family) *header.Addr
	}{
		{"own", c.Own, func(f *family) *header.Addr { return &f.own }},
		{"guest", c.Guest, func(f *family) *header.Addr { return &f.guest }},
		{"host loopback", c.HostLoopback, func(f *family) *header.Addr { return &f.hostLoopback }},
		{"host-guest", c.HostGuest, func(f *family) *header.Addr { return &f.hostGuest }},
	} {
		if err := set(f.dst(&m.v4), f.pair.V4, false); err != nil {
			return nil, fmt.Errorf("addrmap: %s address: %w", f.what, err)
		}
		if err := set(f.dst(&m.v6), f.pair.V6, true); err != nil {
			return nil, fmt.Errorf("addrmap: %s address: %w", f.what, err)
		}
	}
	for _, d := range c.DNS {
		if err := m.addDNS(d); err != nil {
			return nil, fmt.Errorf("addrmap: DNS forward: %w", err)
		}
	}
	for _, f := range []*family{&m.v4, &m.v6} {
		if f.hostLoopback != (header.Addr{}) && f.hostLoopback == f.hostGuest {
			return nil, fmt.Errorf("addrmap: %v is mapped to the loopback and to the guest address", f.hostLoopback)
		}
	}
	return m, nil
}

func (m *Map) addDNS(d Forward) error {
	if d == (Forward{}) {
		return nil
	}
	f := &m.v4
	if is6(d.Seen) {
		f = &m.v6
	}
	seen := header.AddrFromNetip(d.Seen)
	for _, old := range f.dns[:f.numDNS] {
		if old.seen == seen {
			return fmt.Errorf("second one for %v", d.Seen)
		}
	}
	if f.numDNS == MaxDNS {
		return fmt.Errorf("more than %d for this family: %v", MaxDNS, d.Seen)
	}
	if !d.Seen.IsValid() || !d.Host.IsValid() {
		return fmt.Errorf("from %v to %v: address missing", d.Seen, d.Host)
	}
	if d.Host.IsUnspecified() || d.Host.IsMulticast() {
		return fmt.Errorf("%v is no resolver's address", d.Host)
	}
	if err := set(&seen, d.Seen, is6(d.Seen)); err != nil {
		return err
	}
	f.dns[f.numDNS] = redirect{seen: seen, host: header.AddrFromNetip(d.Host)}
	f.numDNS++
	return nil
}

func is6(a netip.Addr) bool { return a.IsValid() && !a.Unmap().Is4() }

// set stores a in dst if it is valid, of the right family and one that may be
// the source of a packet.
func set(dst *header.Addr, a netip.Addr, v6 bool) error {
	if !a.IsValid() {
		return nil
	}
	if is6(a) != v6 {
		return fmt.Errorf("%v is of the wrong family", a)
	}
	h := header.AddrFromNetip(a)
	if why := checkSource(&h, v6); why != OK {
		return fmt.Errorf("%v cannot be a station's address (%v)", a, why)
	}
	*dst = h
	return nil
}
