package netstack

import (
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Config is the network that the guest is given. Addresses that do not apply
// are the zero Addr.
type Config struct {
	// GatewayMAC is our hardware address on the guest's link.
	GatewayMAC header.MAC
	// MTU is that of the guest's interface, in bytes of IP packet, 68 to 65535.
	// AnnounceMTU says whether the guest is told (DHCP, router advertisement).
	MTU         int
	AnnounceMTU bool
	IPv4        IPv4
	IPv6        IPv6

	// DNS and Search are announced to the guest.
	DNS      []netip.Addr
	Search   []string
	Hostname string
	// FQDN is the guest's full name; empty: none is given. Boot is what a guest
	// that boots from the network is told.
	FQDN string
	Boot Boot
	// DNSForward redirects resolvers; see addrmap.Config.
	DNSForward []addrmap.Forward

	// MapHostLoopback are addresses under which the guest reaches the host's
	// loopback; off by default.
	MapHostLoopback addrmap.Pair
	// MapGuest are addresses under which the guest reaches what the host runs
	// on the guest's own addresses.
	MapGuest addrmap.Pair
	// Outbound4 and Outbound6 are the source addresses of sockets, OutboundIf4
	// and OutboundIf6 the interfaces that they are bound to.
	Outbound4, Outbound6     netip.Addr
	OutboundIf4, OutboundIf6 string
	// Forwards are ports of the host that lead to the guest. FreeBind allows
	// them on addresses that the host does not have yet.
	Forwards []forward.Rule
	FreeBind bool
	// Sockets are used for the rules that they serve, in place of opening
	// sockets for these.
	Sockets []InheritedSocket

	// TxBatchFrames is how many frames of the guest are gathered at most before
	// the sockets get them and the buffers go back, FlushFrames how many frames
	// to the guest become visible at once at most. 0 takes the defaults, which
	// were measured (docs/performance.md).
	TxBatchFrames, FlushFrames int

	// MaxFrameBytes is how much TCP data a frame to a guest that takes frames
	// above 64 KiB may carry, at most tcp.MaxBigBytes; 0 makes none of those.
	MaxFrameBytes int

	NoTCP, NoUDP, NoICMP, NoDHCP, NoDHCP6, NoNDP, NoRA bool

	// Capture, if not nil, gets a copy of each frame.
	Capture *capture.Capture

	// PingForbidden, if not nil, is called once when the host refuses a ping
	// socket, on a worker's thread; it must not block.
	PingForbidden func(err error)
	// Shrunk, if not nil, is called when a worker has let go of the memory of many
	// flows, on that worker's thread; it must not block. The memory is garbage
	// then, which an idle process collects after minutes only.
	Shrunk func()
}

// IPv4 is the guest's IPv4 network. Gateway may lie outside the prefix.
type IPv4 struct {
	Enabled        bool
	Guest, Gateway netip.Addr
	PrefixLen      int
	// OwnGateway says that no router has the gateway's address, so that we
	// answer pings for it.
	OwnGateway bool
}

// IPv6 is the guest's IPv6 network. Guest may be invalid: the guest then forms
// its address in Prefix, of 64 bits. Gateway is link-local; invalid means made
// from GatewayMAC.
type IPv6 struct {
	Enabled bool
	Guest   netip.Addr
	// Lease is the address that the guest gets if it asks for one by DHCPv6;
	// invalid: Guest, if there is one.
	Lease   netip.Addr
	Prefix  netip.Prefix
	Gateway netip.Addr
	// NoDefault keeps the guest from using us as its default router: the host
	// has no IPv6 route to anywhere.
	NoDefault bool
}

// Boot names what a guest boots from the network. An URL as File is given to
// DHCPv6 clients too.
type Boot struct {
	File   string
	Server netip.Addr // IPv4, where File is, unless it is an URL; invalid: us
}

// Rx is the ring on which the guest receives, with its descriptors.
type Rx struct {
	Ring      RxRing
	KickFD    int // readable when the guest has added buffers; -1: look at times
	Caller    Caller
	Mergeable bool // VIRTIO_NET_F_MRG_RXBUF
}

// Tx is the ring on which the guest transmits, with its descriptors.
type Tx struct {
	Ring   TxRing
	KickFD int
	Caller Caller
}
