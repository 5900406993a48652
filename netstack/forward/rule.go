// Package forward holds the rules that let the host's side reach servers in
// the guest: a listening port (or range) of the host and the guest port it is
// handed to. Rules are plain data; opening sockets for them is not done here.
//
// ParseSpec reads the notation of the command line, which is that of passt:
//
//	none                        nothing is forwarded
//	[LISTEN/]PORTS              LISTEN: ADDR, ADDR%IF, %IF or *%IF
//	PORTS = PORT[,PORT...]      each PORT one of
//	  8080                      host port 8080 to guest port 8080
//	  8080:80                   host port 8080 to guest port 80
//	  8000-8010                 a range, same numbers in the guest
//	  8000-8010:9000-9010       a range, moved
//	  8080:ADDR                 to port 8080 of ADDR on the guest's side
//	  8080:ADDR/80              to port 80 of ADDR
//
// An IPv6 address may stand in brackets; a target ADDR followed by a slash has
// to, because "80:fd00::1/80" is also a listening address.
package forward

import (
	"fmt"
	"net/netip"
	"strings"
)

// Proto is the transport protocol of a rule.
type Proto uint8

// The protocols that can be forwarded.
const (
	TCP Proto = iota + 1
	UDP
)

// String returns "tcp" or "udp".
func (p Proto) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return fmt.Sprintf("proto(%d)", uint8(p))
}

// Rule forwards the host ports FirstPort..LastPort, ends included, to as many
// guest ports from TargetFirstPort on. A Rule made by ParseSpec is consistent:
// ports are not 0, ranges do not pass 65535, and a target address has the
// family of the listening one. Rules are values and safe to copy.
type Rule struct {
	Proto Proto
	// ListenAddr is the host address listened on. The zero Addr means all
	// addresses of both families; 0.0.0.0 and :: mean all of one family. It
	// never carries a zone: Interface does.
	ListenAddr netip.Addr
	// Interface limits the rule to one interface of the host; "" is any.
	Interface string
	// FirstPort and LastPort bound the host ports, both included.
	FirstPort, LastPort uint16
	// TargetFirstPort is the guest port that FirstPort is handed to.
	TargetFirstPort uint16
	// TargetAddr is the address on the guest's side; the zero Addr means the
	// guest's own address.
	TargetAddr netip.Addr
}

// TargetPort returns the guest port for a host port within the rule.
func (r Rule) TargetPort(hostPort uint16) uint16 {
	return r.TargetFirstPort + (hostPort - r.FirstPort)
}

// Ports returns how many host ports the rule covers.
func (r Rule) Ports() int { return int(r.LastPort) - int(r.FirstPort) + 1 }

// Spec returns the rule in the notation that ParseSpec reads.
func (r Rule) Spec() string {
	var b strings.Builder
	switch {
	case r.ListenAddr.IsValid():
		b.WriteString(r.ListenAddr.String())
	case r.Interface != "":
		b.WriteByte('*')
	}
	if r.Interface != "" {
		b.WriteByte('%')
		b.WriteString(r.Interface)
	}
	if b.Len() > 0 {
		b.WriteByte('/')
	}
	writeRange(&b, r.FirstPort, r.LastPort)
	moved := r.TargetFirstPort != r.FirstPort
	if r.TargetAddr.IsValid() {
		b.WriteByte(':')
		if r.TargetAddr.Is6() {
			fmt.Fprintf(&b, "[%s]", r.TargetAddr)
		} else {
			b.WriteString(r.TargetAddr.String())
		}
		if moved {
			b.WriteByte('/')
			writeRange(&b, r.TargetFirstPort, r.TargetPort(r.LastPort))
		}
	} else if moved {
		b.WriteByte(':')
		writeRange(&b, r.TargetFirstPort, r.TargetPort(r.LastPort))
	}
	return b.String()
}

// String returns the protocol and the rule's notation, as "tcp 8080:80".
func (r Rule) String() string { return r.Proto.String() + " " + r.Spec() }

func writeRange(b *strings.Builder, first, last uint16) {
	if first == last {
		fmt.Fprintf(b, "%d", first)
		return
	}
	fmt.Fprintf(b, "%d-%d", first, last)
}
