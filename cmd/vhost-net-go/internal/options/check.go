package options

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

// check finds options that contradict each other. Its errors name both.
func (o *Options) check(fs *pflag.FlagSet) error {
	for _, f := range []func(*pflag.FlagSet) error{o.checkSocket, o.checkAddresses, o.checkForwards} {
		if err := f(fs); err != nil {
			return err
		}
	}
	if o.Passt && !o.vhostUser {
		return errors.New("--vhost-user: is missing; this is vhost-net-go in the place of passt, and it speaks vhost-user only")
	}
	if o.Background && o.StatsSeconds > 0 {
		return fmt.Errorf("--stats \"%d\": needs --foreground", o.StatsSeconds)
	}
	if o.NoBigTCP && fs.Changed("gso-max-size") {
		return fmt.Errorf("--gso-max-size \"%d\": cannot be combined with --no-big-tcp", o.GSOMaxBytes)
	}
	if fs.Changed("log-size") && o.LogFile == "" {
		return fmt.Errorf("--log-size \"%d\": needs --log-file, whose size it limits", o.LogBytes)
	}
	for _, name := range []string{"pcap-snaplen", "pcap-size"} {
		if fs.Changed(name) && o.PcapFile == "" {
			return fmt.Errorf("--%s: needs --pcap, whose file it concerns", name)
		}
	}
	for _, g := range [][2]netip.Addr{{o.Addr4, o.Gateway4}, {o.Addr6, o.Gateway6}} {
		if g[0].IsValid() && g[0] == g[1] {
			return fmt.Errorf("-g, --gateway %q: the gateway cannot have the address that --address gives to the guest", g[1])
		}
	}
	return nil
}

func (o *Options) checkSocket(fs *pflag.FlagSet) error {
	switch {
	case o.FD >= 0 && o.SocketPath != "":
		return fmt.Errorf("-F, --fd %d: cannot be combined with --socket %q: there is one frontend", o.FD, o.SocketPath)
	case o.FD >= 0 && o.Client:
		return fmt.Errorf("-F, --fd %d: cannot be combined with --client: the descriptor is connected already", o.FD)
	case o.FD >= 0 && fs.Changed("socket-mode"):
		return fmt.Errorf("--socket-mode \"%#o\": cannot be combined with --fd %d: no socket is made", o.SocketMode, o.FD)
	case o.Client && o.SocketPath == "":
		return errors.New("--client: needs --socket, the path to connect to")
	case o.Client && fs.Changed("socket-mode"):
		return fmt.Errorf("--socket-mode \"%#o\": cannot be combined with --client: no socket is made", o.SocketMode)
	case fs.Changed("reconnect-ms") && !o.Client:
		return fmt.Errorf("--reconnect-ms \"%d\": needs --client; a listening socket has nothing to reconnect", o.ReconnectMs)
	}
	return nil
}

func (o *Options) checkAddresses(fs *pflag.FlagSet) error {
	if o.IPv4Only && o.IPv6Only {
		return errors.New("-6, --ipv6-only: cannot be combined with --ipv4-only")
	}
	if o.addrLen4 != 0 && fs.Changed("netmask") {
		return fmt.Errorf("-n, --netmask \"%d\": --address %s/%d has a prefix length already", o.PrefixLen4, o.Addr4, o.addrLen4)
	}
	if o.MTUSet && o.MTU > 0 && o.MTU < MinMTU6 && !o.IPv4Only {
		return fmt.Errorf("-m, --mtu %q: IPv6 needs at least %d (RFC 8200 section 5); smaller ones need --ipv4-only", fmt.Sprint(o.MTU), MinMTU6)
	}
	if o.Gateway6.IsValid() && !o.Gateway6.IsLinkLocalUnicast() {
		return fmt.Errorf("-g, --gateway %q: an IPv6 gateway must be link-local, as in fe80::1 (RFC 4861 section 4.2)", o.Gateway6)
	}
	if (o.DNSHost4.IsValid() || o.DNSHost6.IsValid()) && !o.DNSForward4.IsValid() && !o.DNSForward6.IsValid() && o.NoDNS {
		return fmt.Errorf("--dns-host %q: with --dns none it needs --dns-forward", firstValid(o.DNSHost4, o.DNSHost6))
	}
	if err := o.checkFamily(); err != nil {
		return err
	}
	switch {
	case o.IPv6Only && o.PrefixLen4 != 0:
		return fmt.Errorf("-n, --netmask \"%d\": cannot be combined with --ipv6-only", o.PrefixLen4)
	case o.IPv6Only && o.OutboundIf4 != "":
		return fmt.Errorf("--outbound-if4 %q: cannot be combined with --ipv6-only", o.OutboundIf4)
	case o.IPv4Only && o.OutboundIf6 != "":
		return fmt.Errorf("--outbound-if6 %q: cannot be combined with --ipv4-only", o.OutboundIf6)
	case o.MapGuest4.IsValid() && o.MapGuest4 == o.MapHostLoopback4:
		return mappedTwice(o.MapGuest4)
	case o.MapGuest6.IsValid() && o.MapGuest6 == o.MapHostLoopback6:
		return mappedTwice(o.MapGuest6)
	}
	return nil
}

func firstValid(a, b netip.Addr) netip.Addr {
	if a.IsValid() {
		return a
	}
	return b
}

func mappedTwice(a netip.Addr) error {
	return fmt.Errorf("--map-guest-addr %q: is what --map-host-loopback maps; an address leads to one place", a)
}

// checkFamily refuses addresses of a family that is switched off.
func (o *Options) checkFamily() error {
	given := []struct {
		name  string
		addrs []netip.Addr
	}{
		{"-a, --address", []netip.Addr{o.Addr4, o.Addr6}},
		{"-g, --gateway", []netip.Addr{o.Gateway4, o.Gateway6}},
		{"-D, --dns", o.DNS},
		{"--dns-forward", []netip.Addr{o.DNSForward4, o.DNSForward6}},
		{"-o, --outbound", []netip.Addr{o.Outbound4, o.Outbound6}},
		{"--map-host-loopback", []netip.Addr{o.MapHostLoopback4, o.MapHostLoopback6}},
		{"--map-guest-addr", []netip.Addr{o.MapGuest4, o.MapGuest6}},
	}
	for _, g := range given {
		for _, a := range g.addrs {
			if err := o.familyAllowed(a); err != nil {
				return fmt.Errorf("%s %q: %w", g.name, a, err)
			}
		}
	}
	return nil
}

func (o *Options) familyAllowed(a netip.Addr) error {
	switch {
	case a.Is6() && o.IPv4Only:
		return errors.New("is an IPv6 address, but --ipv4-only is given")
	case a.Is4() && o.IPv6Only:
		return errors.New("is an IPv4 address, but --ipv6-only is given")
	}
	return nil
}

func (o *Options) checkForwards(*pflag.FlagSet) error {
	off := map[forward.Proto]bool{forward.TCP: o.NoTCP, forward.UDP: o.NoUDP}
	for _, r := range o.Forwards {
		if off[r.Proto] {
			return fmt.Errorf("%s %q: cannot be combined with --no-%s", forwardOption(r.Proto), r.Spec(), r.Proto)
		}
		if err := o.familyAllowed(r.ListenAddr); err != nil {
			return fmt.Errorf("%s %q: %w", forwardOption(r.Proto), r.Spec(), err)
		}
	}
	if err := forward.Check(o.Forwards); err != nil {
		return fmt.Errorf("-t, --tcp-ports and -u, --udp-ports: %w", err)
	}
	return nil
}

func forwardOption(p forward.Proto) string {
	if p == forward.UDP {
		return "-u, --udp-ports"
	}
	return "-t, --tcp-ports"
}
