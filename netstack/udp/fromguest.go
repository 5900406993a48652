package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// FromGuest sends a datagram of the guest to the host's side.
func (h *Handler) FromGuest(fr *link.Frame) {
	p := &fr.Packet
	k := flowtable.Key{
		Local: p.Src, Remote: p.Dst,
		LocalPort: p.SrcPort, RemotePort: p.DstPort, Proto: header.ProtoUDP,
	}
	i, ok := h.table.Lookup(&k)
	if !ok {
		if i, ok = h.unknown(&k, fr); !ok {
			return
		}
	}
	f := h.flows.at(i)
	n := 0
	h.gather, n = fr.AppendPayload(h.gather[:0])
	errno := h.send(f, p, h.gather)
	h.memoryGone(errno)
	switch errno {
	case 0:
		h.Counters.FromGuest++
		h.Counters.BytesFromGuest += uint64(n)
	case hostsock.EAGAIN, hostsock.ENOBUFS:
		h.Counters.SendFull++
	default:
		h.Counters.SendFailed++
	}
	h.used(i, f, &f.fromGuest)
}

// maxSendTries is how often a datagram is tried whose socket has errors of
// earlier ones to report: each is reported once, instead of sending.
const maxSendTries = 4

// send sends one datagram, after those errors were taken care of that have
// nothing to do with it.
func (h *Handler) send(f *flow, p *header.Packet, vs []iov.Vec) (errno hostsock.Errno) {
	fd := h.socket(f)
	h.prepare(f, p)
	for range maxSendTries {
		if f.fd >= 0 {
			_, errno = h.calls.Send(fd, vs)
		} else {
			_, errno = h.calls.SendTo(fd, vs, f.host, h.listeners[f.via].V6, &f.from, p.TTL)
		}
		switch errno {
		case 0, hostsock.EAGAIN, hostsock.ENOBUFS, hostsock.EPERM, hostsock.EACCES, hostsock.EFAULT, hostsock.EINVAL:
			return errno
		}
		reported := h.flowErrors(f)
		if errno == hostsock.EMSGSIZE {
			return errno // what the queue held was about this one
		}
		if !reported {
			h.tellUnreachable(&f.key, errno)
			return errno
		}
	}
	return errno
}

func (h *Handler) socket(f *flow) int {
	if f.fd >= 0 {
		return int(f.fd)
	}
	return h.listeners[f.via].FD
}

// prepare gives the flow's own socket the TTL and the fragmentation that the
// guest chose for this datagram, if they differ from the last one's.
func (h *Handler) prepare(f *flow, p *header.Packet) {
	if f.fd < 0 {
		return
	}
	fd, v6 := int(f.fd), !f.host.Addr.Is4()
	if ttl := max(p.TTL, 1); ttl != f.ttl {
		if f.has(multicast) {
			hostsock.SetMulticast(fd, v6, ttl)
		} else {
			hostsock.SetTTL(fd, v6, ttl)
		}
		f.ttl = ttl
	}
	want := uint8(fragAllow)
	if p.DF || p.V6 && !p.Reassembled {
		want = fragForbid
	}
	if want != f.frag {
		mode := hostsock.Allow
		if want == fragForbid {
			mode = hostsock.Forbid
		}
		hostsock.SetFragmentation(fd, v6, mode)
		f.frag = want
	}
}
