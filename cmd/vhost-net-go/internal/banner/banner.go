// Package banner writes the start-up screen: the lines to paste into a QEMU
// command or a libvirt domain, with the real socket path, and the network that
// the guest is about to get.
package banner

import (
	"encoding/xml"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
)

// Role is how the daemon meets its frontend.
type Role uint8

// The roles.
const (
	Listens  Role = iota // the frontend connects to the daemon
	Connects             // the daemon connects to the frontend
	Inherits             // the connection was handed over
)

// Screen is what the text is made of.
type Screen struct {
	Version string
	Role    Role
	// SocketPath is absolute; it is not used when the socket is inherited,
	// which FD is the number of.
	SocketPath string
	FD         int
	Plan       plan.Plan
	// Ports are the forwarded ports, as "tcp 2222:22".
	Ports []string
}

// Text returns the screen, lines of at most about 100 characters unless the
// path is long, with a newline at the end.
func (s Screen) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "vhost-net-go %s: ", s.Version)
	switch s.Role {
	case Listens:
		fmt.Fprintf(&b, "listening on %s\n\n", s.SocketPath)
	case Connects:
		fmt.Fprintf(&b, "connecting to %s\n\n", s.SocketPath)
	case Inherits:
		fmt.Fprintf(&b, "using inherited socket %d\n\n", s.FD)
	}
	if s.Role != Inherits {
		s.qemu(&b)
		s.libvirt(&b)
	}
	s.network(&b)
	return b.String()
}

// qemu writes the options to add to a QEMU command. The memory must be shared:
// without that QEMU starts and no packet ever moves.
func (s Screen) qemu(b *strings.Builder) {
	chardev := "socket,id=vnet0,path=" + strings.ReplaceAll(s.SocketPath, ",", ",,")
	note := "   # QEMU before 9.2: reconnect=1"
	if s.Role == Listens {
		chardev += ",reconnect-ms=1000"
	} else {
		chardev, note = chardev+",server=on,wait=off", ""
	}
	fmt.Fprintf(b, "QEMU (1G is the guest's memory; same size as -m):%s\n", note)
	fmt.Fprintf(b, "  -machine q35,memory-backend=mem -m 1G \\\n"+
		"  -object memory-backend-memfd,id=mem,size=1G,share=on \\\n"+
		"  -chardev %s \\\n"+
		"  -netdev vhost-user,id=net0,chardev=vnet0 -device virtio-net-pci,netdev=net0\n\n", shellQuote(chardev))
}

// libvirt writes the parts of a domain. mode is the role of QEMU's side.
func (s Screen) libvirt(b *strings.Builder) {
	source := fmt.Sprintf("<source type='unix' path='%s' mode='client'><reconnect enabled='yes' timeout='1'/></source>", xmlEscape(s.SocketPath))
	if s.Role == Connects {
		source = fmt.Sprintf("<source type='unix' path='%s' mode='server'/>", xmlEscape(s.SocketPath))
	}
	fmt.Fprintf(b, "libvirt (in <domain>, and in its <devices>):\n"+
		"  <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>\n"+
		"  <interface type='vhostuser'>\n    %s\n    <model type='virtio'/>\n  </interface>\n\n", source)
}

func (s Screen) network(b *strings.Builder) {
	b.WriteString("The guest gets:\n")
	p := s.Plan
	if p.IPv4.Enabled {
		fmt.Fprintf(b, "  IPv4  %s/%d, gateway %s%s\n", p.IPv4.Guest, p.IPv4.PrefixLen, p.IPv4.Gateway, off(p.NoDHCP, "DHCP"))
	}
	if p.IPv6.Enabled {
		guest := p.IPv6.Prefix.String() + " (the guest forms its own address)"
		if p.IPv6.Lease.IsValid() {
			guest = fmt.Sprintf("%s (the guest forms its own address, or gets %s by DHCPv6)", p.IPv6.Prefix, p.IPv6.Lease)
		}
		if p.IPv6.Guest.IsValid() {
			guest = p.IPv6.Guest.String() + "/64"
		}
		fmt.Fprintf(b, "  IPv6  %s, gateway %s%s\n", guest, p.IPv6.Gateway, off(p.NoRA, "router advertisements"))
	}
	fmt.Fprintf(b, "  DNS   %s\n", s.dns())
	if p.AnnounceMTU {
		fmt.Fprintf(b, "  MTU   %d\n", p.MTU)
	}
	for _, r := range s.Ports {
		fmt.Fprintf(b, "  port  %s of the host leads to the guest\n", r)
	}
	for _, m := range []struct {
		addr netip.Addr
		what string
	}{
		{p.MapHostLoopback4, "its loopback services"},
		{p.MapHostLoopback6, "its loopback services"},
		{p.MapGuest4, "its services on the guest's address"},
		{p.MapGuest6, "its services on the guest's address"},
	} {
		if m.addr.IsValid() {
			fmt.Fprintf(b, "  host  %s, at %s\n", m.what, m.addr)
		}
	}
}

func off(is bool, what string) string {
	if is {
		return " (" + what + " off)"
	}
	return ""
}

// dns lists what is announced, and behind a forwarding address its resolver.
func (s Screen) dns() string {
	if len(s.Plan.DNS) == 0 {
		return "none announced"
	}
	var parts []string
	for _, a := range s.Plan.DNS {
		text := a.String()
		switch a {
		case s.Plan.DNSForward4:
			text += fmt.Sprintf(" (to the host's %s)", s.Plan.DNSHost4)
		case s.Plan.DNSForward6:
			text += fmt.Sprintf(" (to the host's %s)", s.Plan.DNSHost6)
		}
		parts = append(parts, text)
	}
	out := strings.Join(parts, ", ")
	if len(s.Plan.Search) > 0 {
		out += "; search " + strings.Join(s.Plan.Search, " ")
	}
	return out
}

// shellQuote quotes for a POSIX shell where that is needed.
func shellQuote(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		alnum := r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9'
		return !alnum && !strings.ContainsRune("/=,._-+:@%", r)
	}) < 0
	if plain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func xmlEscape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}
