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
//	  0:80                      any free port of the host to guest port 80
//	  ~8005, ~8005-8007         leave these ports of the host out
//	  all, all:ADDR             every port that can be had, same numbers
//
// An IPv6 address may stand in brackets; a target ADDR followed by a slash has
// to, because "80:fd00::1/80" is also a listening address.
//
// "all", and exclusions with nothing to exclude them from, take the ports from 1
// to 65535 that are not excluded, not in the range that the host gives to
// outgoing connections, and not taken. Exclusions apply to all of their PORTS,
// wherever they stand.
package forward

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
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

// Range is a range of ports, ends included.
type Range struct{ First, Last uint16 }

// Contains reports whether port lies in r.
func (r Range) Contains(port uint16) bool { return r.First <= port && port <= r.Last }

// Rule forwards the host ports FirstPort..LastPort, ends included, to as many
// guest ports from TargetFirstPort on. A Rule made by ParseSpec is consistent:
// ranges do not pass 65535, target ports are not 0, and a target address has
// the family of the listening one. Rules are values and safe to copy.
type Rule struct {
	Proto Proto
	// ListenAddr is the host address listened on. The zero Addr means all
	// addresses of both families; 0.0.0.0 and :: mean all of one family. It
	// never carries a zone: Interface does.
	ListenAddr netip.Addr
	// Interface limits the rule to one interface of the host; "" is any.
	Interface string
	// FirstPort and LastPort bound the host ports, both included. Both are 0
	// where the host's kernel is to choose a port.
	FirstPort, LastPort uint16
	// TargetFirstPort is the guest port that FirstPort is handed to.
	TargetFirstPort uint16
	// TargetAddr is the address on the guest's side; the zero Addr means the
	// guest's own address.
	TargetAddr netip.Addr
	// BestEffort says that ports which cannot be had are left out, as long as
	// there is one that can: the rule asked for "all". Except are ports to
	// leave out from the start; only a rule with BestEffort has them. It is
	// shared between copies and not changed.
	BestEffort bool
	Except     []Range
}

// TargetPort returns the guest port for a host port within the rule.
func (r Rule) TargetPort(hostPort uint16) uint16 {
	if r.AnyPort() {
		return r.TargetFirstPort
	}
	return r.TargetFirstPort + (hostPort - r.FirstPort)
}

// AnyPort reports whether the host's kernel is to choose the port.
func (r Rule) AnyPort() bool { return r.LastPort == 0 }

// Ports returns how many host ports the rule covers, exceptions included.
func (r Rule) Ports() int { return int(r.LastPort) - int(r.FirstPort) + 1 }

// HostPorts yields the host ports to listen on, without those in Except.
func (r Rule) HostPorts() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for p := int(r.FirstPort); p <= int(r.LastPort); p++ {
			if r.covers(uint16(p)) && !yield(uint16(p)) {
				return
			}
		}
	}
}

func (r Rule) covers(port uint16) bool {
	return r.FirstPort <= port && port <= r.LastPort &&
		!slices.ContainsFunc(r.Except, func(x Range) bool { return x.Contains(port) })
}

// Without returns the rule with more ports left out. Only a rule with
// BestEffort can do without some of its ports; others come back as they are.
func (r Rule) Without(out ...Range) Rule {
	if r.BestEffort {
		r.Except = append(slices.Clone(r.Except), out...)
	}
	return r
}

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
	if r.BestEffort {
		b.WriteString(allPorts)
	} else {
		writeRange(&b, r.FirstPort, r.LastPort)
	}
	r.writeTarget(&b)
	for _, x := range r.Except {
		b.WriteString(",~")
		writeRange(&b, x.First, x.Last)
	}
	return b.String()
}

func (r Rule) writeTarget(b *strings.Builder) {
	moved := r.TargetFirstPort != r.FirstPort
	last := r.TargetPort(r.LastPort)
	if r.TargetAddr.IsValid() {
		b.WriteByte(':')
		if r.TargetAddr.Is6() {
			fmt.Fprintf(b, "[%s]", r.TargetAddr)
		} else {
			b.WriteString(r.TargetAddr.String())
		}
		if moved {
			b.WriteByte('/')
			writeRange(b, r.TargetFirstPort, last)
		}
	} else if moved {
		b.WriteByte(':')
		writeRange(b, r.TargetFirstPort, last)
	}
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
