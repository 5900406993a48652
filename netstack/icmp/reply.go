package icmp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/icmperr"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	// runReplies is what one socket may deliver before the others.
	runReplies = 32
	// maxErrors bounds the errors taken from a socket at a time.
	maxErrors = 16
	// maxUnexplained is after how many errors of a run that the error queue does
	// not explain a socket waits, for retryMs.
	maxUnexplained = 4
	retryMs        = 20
)

// park makes f wait for buffers of the guest, or for better times.
func (h *Handler) park(i uint32, f *flow) {
	f.waiting = true
	h.parked = append(h.parked, i)
}

// toGuest delivers the replies that the socket of f has.
func (h *Handler) toGuest(i uint32, f *flow) {
	unexplained := 0
	for range runReplies {
		vs, ok := h.out.Open(f.v6(), int(f.expect))
		if !ok {
			h.park(i, f)
			return
		}
		h.vecs = append(append(h.vecs[:0], iov.Of(h.head[:])), vs...)
		var a hostsock.Arrival
		n, errno := h.calls.RecvFrom(int(f.fd), h.vecs, &a)
		if errno != 0 {
			h.out.Cancel()
			if errno == hostsock.EAGAIN || h.memoryGone(errno) {
				return
			}
			// An error of an earlier request, reported once, or one that lasts,
			// such as a lack of memory: the poller does not tell again of replies.
			if !h.flowErrors(f) {
				if unexplained++; unexplained == maxUnexplained {
					h.park(i, f)
					h.retryAtMs = h.cfg.Link.NowMs + retryMs
					return
				}
			}
			continue
		}
		// Ping sockets take any reply with their identifier, whoever sent it.
		if n < header.ICMPLen || a.Peer.Addr != f.host || h.head[0] != replyType(&f.host) {
			h.out.Cancel()
			h.Counters.Stray++
			continue
		}
		r := h.reply(f.key.Remote, f.key.Local, f.key.LocalPort)
		h.out.Finish(&r, n-header.ICMPLen)
		f.expect = uint16(n - header.ICMPLen)
		h.Counters.Replies++
	}
	h.makeReady(i, f)
}

func replyType(host *header.Addr) uint8 {
	if host.Is4() {
		return header.ICMPEchoReply
	}
	return header.ICMPv6EchoReply
}

// flowErrors passes the queued errors of the socket of f on to the guest and
// reports whether there were any. What is known of the request is its ICMP
// header and payload, with the identifier of the socket.
func (h *Handler) flowErrors(f *flow) (some bool) {
	buf := h.quoted[:header.MaxICMPv6Error-2*header.IPv6Len-header.ICMPLen]
	for range maxErrors {
		n, errno := h.calls.RecvError(int(f.fd), buf, &h.queued)
		if errno != 0 {
			break
		}
		some = true
		e, ok := icmperr.FromQueue(&h.queued, f.v6())
		if !ok {
			continue
		}
		if n < header.ICMPLen {
			n = header.PutICMP(buf, requestType(&f.key.Local), 0, uint32(f.key.LocalPort)<<16|uint32(f.seq))
		}
		sum := header.UpdateChecksum(be.Uint16(buf[2:4]), be.Uint16(buf[4:6]), f.key.LocalPort)
		be.PutUint16(buf[2:4], sum)
		be.PutUint16(buf[4:6], f.key.LocalPort)
		h.sendError(&f.key, e, h.sender(f), buf[:n])
	}
	return some
}

func requestType(guest *header.Addr) uint8 {
	if guest.Is4() {
		return header.ICMPEchoRequest
	}
	return header.ICMPv6EchoRequest
}

// sender is under which address the guest sees who sent h.queued.
func (h *Handler) sender(f *flow) header.Addr {
	q := &h.queued
	switch {
	case q.Origin == hostsock.OriginLocal || q.Offender == header.Addr{}:
		return header.Addr{}
	case q.Offender == f.host:
		return f.key.Remote
	}
	seen, why := h.cfg.Map.ToGuest(&q.Offender, &f.key.Local)
	if why != addrmap.OK || seen.Is4() != f.key.Local.Is4() {
		return header.Addr{}
	}
	return seen
}

// sendError sends the guest an ICMP error about the request message of the flow
// k, from the address from, or ours if that is zero.
func (h *Handler) sendError(k *flowtable.Key, e header.ICMPError, from header.Addr, message []byte) {
	var quoted [header.MaxICMPv6Error]byte
	ip := header.IP{Src: k.Local, Dst: k.Remote, Proto: k.Proto, TTL: 1}
	n := header.PutIP(quoted[:], &ip, len(message))
	n += copy(quoted[n:], message)
	if icmperr.Push(h.cfg.Queue, h.cfg.Link, &k.Local, from, e, quoted[:n]) {
		h.Counters.ErrorsToGuest++
	}
}
