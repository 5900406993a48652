package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/icmperr"
)

// maxErrors bounds the errors taken from a socket at a time: peers may go on to
// fill its queue.
const maxErrors = 32

// flowErrors passes the queued errors of the socket of f on to the guest and
// reports whether there were any.
func (h *Handler) flowErrors(f *flow) (some bool) {
	if f.fd < 0 {
		return h.listenerErrors(&h.listeners[f.via])
	}
	for range maxErrors {
		n, errno := h.calls.RecvError(int(f.fd), h.payload[:], &h.queued)
		if errno != 0 {
			break
		}
		some = true
		h.passError(f, n)
	}
	return some
}

// listenerErrors is flowErrors for a listener, whose errors say which peer they
// are about.
func (h *Handler) listenerErrors(l *listener) (some bool) {
	for range maxErrors {
		n, errno := h.calls.RecvError(l.FD, h.payload[:], &h.queued)
		if errno != 0 {
			break
		}
		some = true
		k, ok := h.inboundKey(l, &h.queued.To)
		if !ok {
			continue
		}
		if i, ok := h.table.Lookup(&k); ok {
			h.passError(h.flows.at(i), n)
		}
	}
	return some
}

// passError tells the guest of h.queued, an error about a datagram of f whose
// payload began with the first n bytes of h.payload.
func (h *Handler) passError(f *flow, n int) {
	q := &h.queued
	e, ok := icmperr.FromQueue(q, f.v6())
	if !ok || f.has(multicast) {
		return // no errors about groups (RFC 1122 section 3.2.2)
	}
	h.sendError(&f.key, e, h.sender(f, q), h.payload[:n])
}

// sender is under which address the guest sees who sent an error.
func (h *Handler) sender(f *flow, q *hostsock.QueuedError) header.Addr {
	switch {
	case q.Origin == hostsock.OriginLocal || q.Offender == header.Addr{}:
		return header.Addr{}
	case q.Offender == f.host.Addr:
		return f.key.Remote
	}
	seen, why := h.cfg.Map.ToGuest(&q.Offender, &f.key.Local)
	if why != addrmap.OK || seen.Is4() != f.key.Local.Is4() {
		return header.Addr{}
	}
	return seen
}

// tellUnreachable tells the guest that the host's kernel refused to send for
// the flow k.
func (h *Handler) tellUnreachable(k *flowtable.Key, errno hostsock.Errno) {
	if e, ok := icmperr.FromErrno(errno, !k.Local.Is4()); ok && !k.Remote.IsMulticast() {
		h.sendError(k, e, header.Addr{}, nil)
	}
}

// sendError sends the guest an ICMP error about a datagram of the flow k, from
// the address from, or ours if that is zero.
func (h *Handler) sendError(k *flowtable.Key, e header.ICMPError, from header.Addr, payload []byte) {
	var quoted [header.IPv6Len + header.UDPLen + maxQuoted]byte
	ip := header.IP{Src: k.Local, Dst: k.Remote, Proto: header.ProtoUDP, TTL: 1}
	n := header.PutIP(quoted[:], &ip, header.UDPLen+len(payload))
	n += header.PutUDP(quoted[n:], k.LocalPort, k.RemotePort, len(payload))
	n += copy(quoted[n:], payload)
	if icmperr.Push(h.cfg.Queue, h.cfg.Link, &k.Local, from, e, quoted[:n]) {
		h.Counters.ErrorsToGuest++
	}
}
