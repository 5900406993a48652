// Package icmperr turns what the host's kernel says about a failed datagram into
// ICMP and ICMPv6 errors for the guest.
package icmperr

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
)

// The remaining types of error messages (RFC 792, RFC 4443).
const (
	parameterProblem   = 12
	v6ParameterProblem = 4
)

// FromQueue returns the message for an entry of an error queue; v6 is the
// family of the guest. What came as an ICMP error of that family keeps its type
// and code. ok is false if there is nothing to tell.
func FromQueue(q *hostsock.QueuedError, v6 bool) (e header.ICMPError, ok bool) {
	switch {
	case q.Origin == hostsock.OriginICMP && !v6:
		e = header.ICMPError{Type: q.Type, Code: q.Code}
		switch q.Type {
		case header.ICMPUnreachable:
			if q.Code == header.ICMPCodeFragNeeded {
				e.MTU = q.Info
			}
			return e, true
		case header.ICMPTimeExceeded, parameterProblem:
			return e, true
		}
		return e, false
	case q.Origin == hostsock.OriginICMPv6 && v6:
		e = header.ICMPError{Type: q.Type, Code: q.Code}
		if q.Type == header.ICMPv6TooBig {
			e.MTU = q.Info
		}
		return e, q.Type >= header.ICMPv6Unreachable && q.Type <= v6ParameterProblem
	case q.Errno == hostsock.EMSGSIZE:
		return tooBig(q.Info, v6), true
	}
	return FromErrno(q.Errno, v6)
}

func tooBig(mtu uint32, v6 bool) header.ICMPError {
	if v6 {
		return header.ICMPError{Type: header.ICMPv6TooBig, MTU: max(mtu, 1280)} // RFC 8200 section 5
	}
	return header.ICMPError{Type: header.ICMPUnreachable, Code: header.ICMPCodeFragNeeded, MTU: mtu}
}

// FromErrno returns the message for an error that a socket call reported at
// once. ok is false for errors that say nothing about the destination.
func FromErrno(errno hostsock.Errno, v6 bool) (e header.ICMPError, ok bool) {
	code4, code6 := uint8(0), uint8(0)
	switch errno {
	case hostsock.EHOSTUNREACH:
		code4, code6 = header.ICMPCodeHost, header.ICMPv6CodeAddress
	case hostsock.ENETUNREACH:
		code4, code6 = header.ICMPCodeNet, header.ICMPv6CodeNoRoute
	case hostsock.ECONNREFUSED:
		code4, code6 = header.ICMPCodePort, header.ICMPv6CodePort
	case hostsock.EACCES, hostsock.EPERM:
		code4, code6 = header.ICMPCodeProhibited, header.ICMPv6CodeProhibited
	default:
		return e, false
	}
	if v6 {
		return header.ICMPError{Type: header.ICMPv6Unreachable, Code: code6}, true
	}
	return header.ICMPError{Type: header.ICMPUnreachable, Code: code4}, true
}

// Push sends the guest's address to an error about the packet quoted, which
// begins with its IP header. It comes from from, or, if that is zero, from us:
// the gateway. It reports whether there was room for it.
func Push(q *framequeue.Queue, l *link.Link, to *header.Addr, from header.Addr, e header.ICMPError, quoted []byte) bool {
	etherType := uint16(header.EtherTypeIPv6)
	if to.Is4() {
		etherType = header.EtherTypeIPv4
	}
	if from == (header.Addr{}) {
		from = l.OurLinkLocal
		if to.Is4() {
			from = l.Gateway4
		}
	}
	if from.Is4() != to.Is4() {
		return false // we have no address of this family
	}
	var frame [header.EthLen + header.MaxICMPErrorFrame]byte
	n := header.PutEth(frame[:], l.GuestMAC, l.OurMAC, etherType)
	n += header.PutICMPError(frame[n:], &from, to, e, quoted)
	return q.Push(header.Vnet{}, frame[:n])
}
