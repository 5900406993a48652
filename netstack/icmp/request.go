package icmp

import (
	"encoding/binary"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/datagram"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/icmperr"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

var be = binary.BigEndian

// FromGuest takes an ICMP or ICMPv6 packet of the guest. Only echo requests go
// anywhere.
func (h *Handler) FromGuest(fr *link.Frame) {
	p := &fr.Packet
	copy(h.head[:], fr.Head[p.L4:p.L4+header.ICMPLen])
	want := uint8(header.ICMPEchoRequest)
	if p.V6 {
		want = header.ICMPv6EchoRequest
	}
	if h.head[0] != want || h.head[1] != 0 || p.Proto != header.ICMPProto(&p.Src) ||
		p.Dst.IsMulticast() || p.Dst.IsLimitedBroadcast() {
		h.Counters.NotCarried++
		return
	}
	host, why := h.cfg.Map.FromGuest(p)
	if why != addrmap.OK {
		h.Counters.Martian[why]++
		return
	}
	if host == p.Dst && h.isOurs(&p.Dst) {
		h.answer(fr)
		return
	}
	k := flowtable.Key{Local: p.Src, Remote: p.Dst, LocalPort: be.Uint16(h.head[4:6]), Proto: p.Proto}
	i, ok := h.table.Lookup(&k)
	if !ok {
		if i, ok = h.open(&k, host); !ok {
			return
		}
	}
	h.request(&h.flows[i], fr)
}

// isOurs says whether only we can answer for a.
func (h *Handler) isOurs(a *header.Addr) bool {
	return *a == h.cfg.Link.OurLinkLocal && !a.IsUnspecified() || h.cfg.OwnGateway && *a == h.cfg.Link.Gateway4
}

// answer replies to a request in the name of one of our addresses.
func (h *Handler) answer(fr *link.Frame) {
	p := &fr.Packet
	var n int
	h.vecs, n = fr.AppendPayload(h.vecs[:0])
	r := h.reply(p.Dst, p.Src, be.Uint16(h.head[4:6]))
	if h.out.Send(&r, h.vecs, n) {
		h.Counters.Answered++
	}
}

// reply makes the headers of an echo reply from h.head, which holds the header
// of the request or of the reply.
func (h *Handler) reply(from, to header.Addr, id uint16) datagram.Packet {
	r := datagram.Packet{Src: from, Dst: to, Proto: header.ICMPProto(&to)}
	typ := uint8(header.ICMPEchoReply)
	if !to.Is4() {
		typ = header.ICMPv6EchoReply
	}
	header.PutICMP(r.L4[:], typ, 0, uint32(id)<<16|uint32(be.Uint16(h.head[6:8])))
	return r
}

// open makes the flow for k, whose requests go to host.
func (h *Handler) open(k *flowtable.Key, host header.Addr) (uint32, bool) {
	fd, errno := h.socket(k, host)
	switch errno {
	case 0:
	case hostsock.EMFILE, hostsock.ENFILE, hostsock.ENOBUFS, hostsock.ENOMEM:
		h.Counters.Limited++
		return 0, false
	default:
		h.Counters.SendFailed++
		h.tell(k, errno)
		return 0, false
	}
	if fd < 0 {
		return 0, false
	}
	i := h.add(k, host, fd)
	if err := h.cfg.Poller.Add(fd, link.Token(h.cfg.FlowHandler, h.flows[i].gen, i), poller.Readable); err != nil {
		h.Counters.Limited++
		h.release(i)
		return 0, false
	}
	return i, true
}

// socket opens a ping socket that is connected to host, with the guest's
// identifier if it is free. It returns -1 and no error if the host allows none.
func (h *Handler) socket(k *flowtable.Key, host header.Addr) (int, hostsock.Errno) {
	v6 := !host.Is4()
	fd, errno := hostsock.OpenPing(v6)
	if (errno == hostsock.EMFILE || errno == hostsock.ENFILE) && h.recycle() {
		fd, errno = hostsock.OpenPing(v6)
	}
	if errno == hostsock.EACCES || errno == hostsock.EPERM {
		h.Counters.Forbidden++
		if !h.told && h.cfg.Forbidden != nil {
			h.cfg.Forbidden(errno)
		}
		h.told = true
		return -1, 0
	}
	if errno == 0 {
		errno = h.connect(fd, host, k.LocalPort)
	}
	if errno != 0 {
		return -1, errno
	}
	return fd, 0
}

// connect connects a ping socket to host, or closes it.
func (h *Handler) connect(fd int, host header.Addr, id uint16) (errno hostsock.Errno) {
	v6 := !host.Is4()
	local := hostsock.Endpoint{Port: id}
	if !host.IsLoopback() {
		device := &h.cfg.Device6
		local.Addr = h.cfg.Outbound6
		if !v6 {
			local.Addr, device = h.cfg.Outbound4, &h.cfg.Device4
		}
		if device.Given() {
			if errno = hostsock.BindToDevice(fd, device); errno != 0 {
				hostsock.Close(fd)
				return errno
			}
		}
	}
	if errno = h.conn.Bind(fd, local, v6); errno != 0 {
		local.Port = 0
		errno = h.conn.Bind(fd, local, v6)
	}
	if errno == 0 {
		errno = h.conn.Connect(fd, hostsock.Endpoint{Addr: host}, v6)
	}
	if errno != 0 {
		hostsock.Close(fd)
	}
	return errno
}

// maxSendTries is how often a request is tried whose socket has errors of
// earlier ones to report.
const maxSendTries = 4

// request sends the echo request in fr; its header is in h.head.
func (h *Handler) request(f *flow, fr *link.Frame) {
	h.prepare(f, &fr.Packet)
	f.usedMs = h.cfg.Link.NowMs
	f.seq = be.Uint16(h.head[6:8])
	h.vecs, _ = fr.AppendPayload(append(h.vecs[:0], iov.Of(h.head[:])))
	for range maxSendTries {
		_, errno := h.calls.Send(int(f.fd), h.vecs)
		if h.memoryGone(errno) {
			break
		}
		switch errno {
		case 0:
			h.Counters.Requests++
			return
		case hostsock.EAGAIN, hostsock.ENOBUFS:
			h.Counters.Limited++
			return
		}
		if !h.flowErrors(f) {
			h.tell(&f.key, errno)
			break
		}
		if errno == hostsock.EMSGSIZE {
			break
		}
	}
	h.Counters.SendFailed++
}

// prepare gives the socket the TTL and the fragmentation that the guest chose.
func (h *Handler) prepare(f *flow, p *header.Packet) {
	v6 := !f.host.Is4()
	if ttl := max(p.TTL, 1); ttl != f.ttl {
		hostsock.SetTTL(int(f.fd), v6, ttl)
		f.ttl = ttl
	}
	mode := hostsock.Allow
	if p.DF || p.V6 && !p.Reassembled {
		mode = hostsock.Forbid
	}
	if want := uint8(mode) + 1; want != f.frag {
		hostsock.SetFragmentation(int(f.fd), v6, mode)
		f.frag = want
	}
}

// tell tells the guest that the host's kernel refused to send for k.
func (h *Handler) tell(k *flowtable.Key, errno hostsock.Errno) {
	if e, ok := icmperr.FromErrno(errno, !k.Local.Is4()); ok {
		h.sendError(k, e, header.Addr{}, h.head[:])
	}
}
