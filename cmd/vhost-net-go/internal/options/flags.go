package options

import (
	"github.com/spf13/pflag"

	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/tcp"
)

// forwardState is what -t and -u collected, and whether "none" was among it.
type forwardState struct {
	rules map[forward.Proto][]forward.Rule
	none  map[forward.Proto]bool
}

// aliases maps further names of an option to its own.
func aliases(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "socket-path" {
		name = "socket"
	}
	return pflag.NormalizedName(name)
}

// newFlagSet binds every option to a field of o.
func newFlagSet(o *Options, fwd *forwardState) *pflag.FlagSet {
	fs := pflag.NewFlagSet("vhost-net-go", pflag.ContinueOnError)
	fs.SetNormalizeFunc(aliases)
	fs.SortFlags = false
	fs.Usage = func() {}
	for _, g := range groups(o, fwd) {
		g.add(fs)
	}
	addUnsupported(fs)
	return fs
}

// group is a part of the options that belong together.
type group struct {
	title string
	add   func(*pflag.FlagSet)
}

func groups(o *Options, fwd *forwardState) []group {
	return []group{
		{"The process", func(fs *pflag.FlagSet) { addProcessFlags(fs, o) }},
		{"The virtual machine's socket", func(fs *pflag.FlagSet) { addSocketFlags(fs, o) }},
		{"Ports into the guest", func(fs *pflag.FlagSet) { addForwardFlags(fs, o, fwd) }},
		{"Addresses", func(fs *pflag.FlagSet) { addAddressFlags(fs, o) }},
		{"Names", func(fs *pflag.FlagSet) { addNameFlags(fs, o) }},
		{"Leaving things out", func(fs *pflag.FlagSet) { addSwitches(fs, o) }},
	}
}

func addProcessFlags(fs *pflag.FlagSet, o *Options) {
	onP(fs, &o.Help, "help", "h", "print this help and exit")
	onP(fs, &o.Version, "version", "", "print the version and exit")
	onP(fs, &o.PrintCapabilities, "print-capabilities", "", "print what this backend can do, as JSON for QEMU's and libvirt's tools, and exit")
	valueP(fs, "config", "", "`FILE` with more options, one per line without its dashes; # begins a comment", configFile(fs))
	onP(fs, &o.vhostUser, "vhost-user", "", "accepted; always on")
	onP(fs, &o.foreground, "foreground", "f", "stay in the foreground; accepted, always on unless started under the name passt")
	valueP(fs, "runas", "", "`USER` to change to when started as root: UID, UID:GID, LOGIN or LOGIN:GROUP", setRunAs(&o.RunAs))
	noted(fs, o, "stderr", "e", "", "messages go to standard error in the foreground, whatever is asked for")
	doP(fs, "debug", "d", "log more", func() { o.Level = max(o.Level, Debug) })
	doP(fs, "trace", "", "log still more", func() { o.Level = Trace })
	doP(fs, "quiet", "q", "log only warnings and errors", func() { o.Level = Quiet })
	valueP(fs, "log-file", "l", "`FILE` to log to instead of standard error", setPath(&o.LogFile))
	valueP(fs, "log-size", "", "`BYTES` a log file may hold; the oldest lines go (default 1048576)", setInt64(&o.LogBytes, MinLogBytes, 1<<31-1))
	valueP(fs, "stats", "", "`SECONDS` at least between two lines of counters, which are logged when they have changed", setInt(&o.StatsSeconds, 1, 86400, "seconds"))
	valueP(fs, "pid", "P", "`FILE` for the process id", setPath(&o.PidFile))
	valueP(fs, "sandbox", "", "`MODE`: auto (all layers that the kernel has), require (all, or fail) or off (default auto)", setSandbox(&o.Sandbox))
	valueP(fs, "pcap", "p", "`FILE` for a capture of the guest's link, in pcapng", setPath(&o.PcapFile))
	valueP(fs, "pcap-snaplen", "", "`BYTES` of each frame to keep in it (default: all)", setInt(&o.PcapSnapBytes, MinPcapSnapBytes, capture.MaxSnapBytes, "bytes"))
	valueP(fs, "pcap-size", "", "`BYTES` it may hold; it ends there (default: no limit)", setInt64(&o.PcapBytes, MinPcapBytes, 1<<50))
	hidden(fs, "tx-batch-frames", "`N` frames of the guest that are gathered at most, for measurements", setInt(&o.TxBatchFrames, 1, 1024, "frames"))
	hidden(fs, "flush-frames", "`N` frames to the guest that become visible at once at most, for measurements", setInt(&o.FlushFrames, 1, 1024, "frames"))
	noted(fs, o, "chroot-fallback", "", "", "there is no pivot_root that could fail")
	noted(fs, o, "migrate-exit", "", "", "there is no migration")
	noted(fs, o, "migrate-no-linger", "", "", "there is no migration")
	noted(fs, o, "repair-path", "", "PATH", "there is no migration, and so no socket for passt-repair")
}

func addSocketFlags(fs *pflag.FlagSet, o *Options) {
	valueP(fs, "socket", "s", "`PATH` of the vhost-user socket (also --socket-path; default: the first free one)", setSocketPath(&o.SocketPath))
	valueP(fs, "fd", "F", "inherited, connected socket number `N`; implies --one-off", setFD(&o.FD))
	onP(fs, &o.OneOff, "one-off", "1", "exit when the frontend goes away")
	onP(fs, &o.Client, "client", "", "connect to --socket, on which QEMU (server=on) or libvirt (mode='server') listens")
	valueP(fs, "socket-mode", "", "`MODE` of the socket's permissions, octal (default 0600)", setMode(&o.SocketMode))
	valueP(fs, "reconnect-ms", "", "`MS` at most between two attempts of --client (default 1000)", setInt(&o.ReconnectMs, 1, 3600000, "milliseconds"))
	valueP(fs, "queues", "", "`N` queue pairs at most, for every frontend (default: 16 for QEMU, 1 for others)", setInt(&o.Queues, 1, MaxQueues, "queue pairs"))
}

func addForwardFlags(fs *pflag.FlagSet, o *Options, fwd *forwardState) {
	valueP(fs, "tcp-ports", "t", "TCP ports of the host that lead into the guest; `SPEC` is [[ADDR][%IF]/]PORT[-PORT][:GUESTPORT],... or all or none; repeatable", setForward(fwd, forward.TCP))
	valueP(fs, "udp-ports", "u", "the same for UDP; `SPEC` as above", setForward(fwd, forward.UDP))
	onP(fs, &o.FreeBind, "freebind", "", "let -t and -u listen on addresses that the host does not have yet")
}

func addAddressFlags(fs *pflag.FlagSet, o *Options) {
	valueP(fs, "address", "a", "`ADDR[/LEN]` of the guest, once per family (default: the host's)", setGuestAddress(o))
	valueP(fs, "netmask", "n", "`MASK` of the guest's IPv4 network, dotted or as a length", setNetmask(&o.PrefixLen4))
	valueP(fs, "gateway", "g", "`ADDR` of the guest's gateway, per family (default: the host's)", setPerFamily(&o.Gateway4, &o.Gateway6, unicastOnly))
	valueP(fs, "mtu", "m", "`BYTES` of the link's MTU; 0: do not announce one (default: the host interface's)", setMTU(o))
	valueP(fs, "mac-addr", "M", "`MAC` address of the gateway (default 9a:55:9a:55:9a:55)", setMAC(&o.MAC))
	valueP(fs, "interface", "i", "`IFNAME` of the host interface to copy addresses and routes from", setInterface(&o.Interface))
	valueP(fs, "outbound", "o", "`ADDR` of the host to send from, per family", setPerFamily(&o.Outbound4, &o.Outbound6, anyUnicast))
	valueP(fs, "outbound-if4", "", "`IFNAME` of the interface that IPv4 to the outside leaves by, and to copy from unless -i is given", setInterface(&o.OutboundIf4))
	valueP(fs, "outbound-if6", "", "`IFNAME` of the same for IPv6", setInterface(&o.OutboundIf6))
	onP(fs, &o.IPv4Only, "ipv4-only", "4", "no IPv6 for the guest")
	onP(fs, &o.IPv6Only, "ipv6-only", "6", "no IPv4 for the guest")
	valueP(fs, "map-host-loopback", "", "`ADDR` at which the guest reaches the host's loopback, per family, or none (default none)", setMapped(&o.MapHostLoopback4, &o.MapHostLoopback6))
	accepted(fs, "no-map-gw", "", "always on: the gateway's address never leads to the host's loopback")
	valueP(fs, "map-guest-addr", "", "`ADDR` at which the guest reaches what the host runs on the guest's own address, per family, or none (default none)", setMapped(&o.MapGuest4, &o.MapGuest6))
}

func addNameFlags(fs *pflag.FlagSet, o *Options) {
	valueP(fs, "dns", "D", "`ADDR` of a resolver to announce, or none; repeatable (default: the host's)", setDNS(o))
	valueP(fs, "search", "S", "`NAMES` of search domains to announce, or none; repeatable (default: the host's)", setSearch(o))
	valueP(fs, "dns-forward", "", "`ADDR` at which the guest reaches the host's resolver, per family", setPerFamily(&o.DNSForward4, &o.DNSForward6, unicastOnly))
	valueP(fs, "dns-host", "", "`ADDR` of the resolver that --dns-forward leads to, per family", setDNSHost(o))
	valueP(fs, "hostname", "H", "`NAME` for the guest", setHostname(&o.Hostname))
	valueP(fs, "fqdn", "", "`NAME` for the guest, with its domain", setHostname(&o.FQDN))
	valueP(fs, "dhcp-boot", "", "`FILE[,ADDR]` that the guest boots from the network: an URL, or a file at ADDR (default: the gateway)", setBoot(o))
	onP(fs, &o.NoDHCPDNS, "no-dhcp-dns", "", "announce no resolvers")
	onP(fs, &o.NoDHCPSearch, "no-dhcp-search", "", "announce no search domains")
	noted(fs, o, "dhcp-dns", "", "", "resolvers are announced unless --no-dhcp-dns is given")
	noted(fs, o, "dhcp-search", "", "", "search domains are announced unless --no-dhcp-search is given")
}

func addSwitches(fs *pflag.FlagSet, o *Options) {
	onP(fs, &o.NoTCP, "no-tcp", "", "drop TCP")
	onP(fs, &o.NoUDP, "no-udp", "", "drop UDP")
	onP(fs, &o.NoBigTCP, "no-big-tcp", "", "no frames above 64 KiB to the guest")
	valueP(fs, "gso-max-size", "", "`BYTES` of TCP data in such a frame at most (default 262144)", setInt(&o.GSOMaxBytes, MinGSOMaxBytes, tcp.MaxBigBytes, "bytes"))
	onP(fs, &o.NoICMP, "no-icmp", "", "drop ping; implies --no-ndp")
	onP(fs, &o.NoDHCP, "no-dhcp", "", "no DHCP server")
	onP(fs, &o.NoNDP, "no-ndp", "", "no neighbour discovery; implies --no-ra")
	onP(fs, &o.NoRA, "no-ra", "", "no router advertisements")
	onP(fs, &o.NoDHCP6, "no-dhcpv6", "", "no DHCPv6 server")
}
