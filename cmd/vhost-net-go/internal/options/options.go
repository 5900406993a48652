// Package options reads the daemon's command line into a plain struct.
//
// Names and meanings are those of passt wherever passt has the option, so that
// a program that starts passt can start vhost-net-go instead. As there, the
// last occurrence of a repeated option wins, except for the ones that collect
// (-D, -S, -t, -u) and for -a, which is taken once per address family. A file
// of options counts as if it stood where --config names it.
package options

import (
	"net/netip"
	"os"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sandbox"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

// Limits of option values.
const (
	// MaxMTU is the largest MTU in bytes; MinMTU4 is RFC 791's smallest and
	// MinMTU6 RFC 8200's.
	MaxMTU  = 65521
	MinMTU4 = 68
	MinMTU6 = 1280
	// MinLogBytes is the smallest log file; DefaultLogBytes applies when
	// --log-size is absent.
	MinLogBytes     = 40960
	DefaultLogBytes = 1 << 20
	// MinPcapSnapBytes and MinPcapBytes are the smallest captures: an Ethernet
	// header of each frame, and a file with at least one frame.
	MinPcapSnapBytes = 14
	MinPcapBytes     = 1 << 20
	// MaxDNSPerFamily and MaxSearch bound what is announced to the guest.
	MaxDNSPerFamily = 3
	MaxSearch       = 6
	// MinGSOMaxBytes is where frames above 64 KiB begin. Of DefaultGSOMaxBytes
	// docs/performance.md tells what is known.
	MinGSOMaxBytes     = 64 << 10
	DefaultGSOMaxBytes = 256 << 10
	// DefaultReconnectMs is the longest wait between two attempts of --client.
	DefaultReconnectMs = 1000
	// MaxQueues is the largest number of queue pairs.
	MaxQueues = 16
	// DefaultSocketMode lets only the own user connect.
	DefaultSocketMode = os.FileMode(0o600)
)

// Level is how much is logged.
type Level uint8

// The levels, from the fewest to the most lines.
const (
	Normal Level = iota
	Quiet
	Debug
	Trace
)

// Options is the command line as understood. Addresses that were not given are
// the zero netip.Addr. It is made by Parse and not changed afterwards.
type Options struct {
	// Help, Version and PrintCapabilities each ask for some output and a
	// clean exit; nothing else is checked then.
	Help, Version, PrintCapabilities bool

	// SocketPath is the vhost-user socket; "" picks a free default path, or
	// means FD is used.
	SocketPath string
	// FD is an inherited, connected socket, or -1.
	FD int
	// Client connects to SocketPath instead of listening on it.
	Client bool
	// ReconnectMs is the longest wait between connection attempts of a client.
	ReconnectMs int
	// SocketMode holds the permission bits of a socket that is listened on.
	SocketMode os.FileMode
	// Queues is the largest number of queue pairs, 0: not given.
	Queues int
	// OneOff ends the daemon when its frontend goes away.
	OneOff bool

	// Background says that the daemon detaches from its caller once it is
	// ready. RunAs is whom it runs as then: UID, UID:GID, LOGIN or
	// LOGIN:GROUP; "" keeps the caller's.
	Background bool
	RunAs      string
	// Passt says that these are the arguments of a program called passt.
	Passt bool
	// Notes are lines for the log about options that change nothing.
	Notes []string

	// PidFile and LogFile are paths, "" for none.
	PidFile, LogFile string
	// LogBytes is the log file's size limit.
	LogBytes int64
	Level    Level
	// Sandbox says what happens if the kernel cannot sandbox the daemon.
	Sandbox sandbox.Mode
	// PcapFile is the path of a capture, "" for none; PcapSnapBytes of each frame
	// are kept, and the file ends at PcapBytes (0: it does not).
	PcapFile      string
	PcapSnapBytes int
	PcapBytes     int64
	// StatsSeconds is how often counters that have changed are logged; 0:
	// only when asked for by a signal.
	StatsSeconds int
	// TxBatchFrames and FlushFrames are netstack.Config's, for measurements; 0:
	// its defaults.
	TxBatchFrames, FlushFrames int

	// Forwards holds the rules of -t and -u in the order given.
	Forwards []forward.Rule
	// FreeBind allows them on addresses that the host does not have.
	FreeBind bool

	// Addr4 and Addr6 are the guest's addresses, PrefixLen4 the IPv4 prefix
	// length (0: not given). An IPv6 prefix is always 64 bits long.
	Addr4, Addr6 netip.Addr
	PrefixLen4   int
	// Gateway4 and Gateway6 replace the host's default gateways.
	Gateway4, Gateway6 netip.Addr
	// MTU is in bytes; 0 with MTUSet: none is announced.
	MTU    int
	MTUSet bool
	// MAC is the gateway's hardware address; all zero: the default.
	MAC [6]byte

	// DNS and Search replace what the host's resolver file says; NoDNS and
	// NoSearch announce nothing.
	DNS             []netip.Addr
	Search          []string
	NoDNS, NoSearch bool
	// NoDHCPDNS and NoDHCPSearch keep both out of the announcements only.
	NoDHCPDNS, NoDHCPSearch bool
	// DNSForward4 and 6 are addresses at which the guest reaches the host's
	// resolver, DNSHost4 and 6 that resolver.
	DNSForward4, DNSForward6 netip.Addr
	DNSHost4, DNSHost6       netip.Addr

	IPv4Only, IPv6Only bool
	// Interface is the host interface to copy addresses and routes from.
	Interface string
	// Outbound4 and 6 are the source addresses of sockets to the outside.
	Outbound4, Outbound6 netip.Addr
	Hostname             string
	// FQDN is the guest's full name.
	FQDN string
	// BootFile is a file on BootServer (not given: the gateway) or an URL,
	// which a guest that boots from the network is told.
	BootFile   string
	BootServer netip.Addr
	// OutboundIf4 and 6 are the interfaces that these leave by, and addresses
	// and routes are copied from unless Interface says otherwise.
	OutboundIf4, OutboundIf6 string
	// MapHostLoopback4 and 6 are the addresses at which the guest reaches
	// the host's loopback. Not given: it cannot.
	MapHostLoopback4, MapHostLoopback6 netip.Addr
	// MapGuest4 and 6 are the addresses at which the guest reaches what the
	// host runs on the guest's own addresses.
	MapGuest4, MapGuest6 netip.Addr

	NoTCP, NoUDP, NoICMP, NoDHCP, NoDHCP6, NoNDP, NoRA bool

	// GSOMaxBytes is how much TCP data a frame to the guest carries at most, if
	// the guest takes frames above 64 KiB; NoBigTCP makes none of those.
	GSOMaxBytes int
	NoBigTCP    bool

	// addrLen4 is the prefix length written behind -a, 0 for none.
	addrLen4 int
	// foreground and vhostUser were given.
	foreground, vhostUser bool
}
