package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// FromGuest takes a datagram of the guest, or a train of them that the guest wants
// cut (VIRTIO_NET_HDR_GSO_UDP_L4), to the host's side. It is sent at the latest with
// EndBatch.
func (h *Handler) FromGuest(fr *link.Frame) {
	p := &fr.Packet
	k := flowtable.Key{
		Local: p.Src, Remote: p.Dst,
		LocalPort: p.SrcPort, RemotePort: p.DstPort, Proto: header.ProtoUDP,
	}
	i, ok := h.table.Lookup(&k)
	if ok && h.flows.at(i).era != h.era {
		ok = !h.leftHome(i)
	}
	if !ok {
		if i, ok = h.unknown(&k, fr); !ok {
			return
		}
	}
	n := p.End - p.Payload
	segBytes := n
	if fr.Vnet.GSOType == header.GSOUDPL4 {
		segBytes = min(n, int(fr.Vnet.GSOSize))
	}
	h.board(i, fr, n, segBytes)
	f := h.flows.at(i)
	h.used(i, f, &f.fromGuest)
}

// manner is how a datagram is to travel.
type manner struct {
	ttl, frag uint8
}

func mannerOf(p *header.Packet) manner {
	m := manner{ttl: max(p.TTL, 1), frag: fragAllow}
	if p.DF || p.V6 && !p.Reassembled {
		m.frag = fragForbid
	}
	return m
}

// maxSendTries is how often a datagram is tried whose socket has errors of
// earlier ones to report: each is reported once, instead of sending.
const maxSendTries = 4

// send sends one datagram, after those errors were taken care of that have
// nothing to do with it, and counts it.
func (h *Handler) send(f *flow, ttl uint8, vs []iov.Vec, n int) {
	errno := h.trySend(f, ttl, vs)
	h.memoryGone(errno)
	h.sent(errno, 1, n)
}

// sent counts datagrams, of n bytes in all, by what became of them.
func (h *Handler) sent(errno hostsock.Errno, datagrams uint64, n int) {
	switch errno {
	case 0:
		h.Counters.FromGuest += datagrams
		h.Counters.BytesFromGuest += uint64(n)
	case hostsock.EAGAIN, hostsock.ENOBUFS:
		h.Counters.SendFull += datagrams
	default:
		h.Counters.SendFailed += datagrams
	}
}

func (h *Handler) trySend(f *flow, ttl uint8, vs []iov.Vec) (errno hostsock.Errno) {
	fd := h.socket(f)
	for range maxSendTries {
		if f.fd >= 0 {
			_, errno = h.calls.Send(fd, vs)
		} else {
			_, errno = h.calls.SendTo(fd, vs, f.host, h.listeners[f.via].V6, &f.from, ttl)
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
// guest chose, if they differ from the last ones.
func (h *Handler) prepare(f *flow, m manner) {
	if f.fd < 0 {
		return
	}
	fd, v6 := int(f.fd), !f.host.Addr.Is4()
	if m.ttl != f.ttl {
		if f.has(multicast) {
			hostsock.SetMulticast(fd, v6, m.ttl)
		} else {
			hostsock.SetTTL(fd, v6, m.ttl)
		}
		f.ttl = m.ttl
	}
	if m.frag != f.frag {
		mode := hostsock.Allow
		if m.frag == fragForbid {
			mode = hostsock.Forbid
		}
		hostsock.SetFragmentation(fd, v6, mode)
		f.frag = m.frag
	}
}
