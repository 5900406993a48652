package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
)

// open makes the flow of a datagram from the guest that belongs to none yet.
func (h *Handler) open(k *flowtable.Key, fr *link.Frame) (uint32, bool) {
	p := &fr.Packet
	host, why := h.cfg.Map.FromGuest(p)
	if why != addrmap.OK {
		h.Counters.Martian[why]++
		return 0, false
	}
	if !carried(&host) || p.DstPort == 0 || p.SrcPort == 0 {
		h.Counters.NotCarried++
		return 0, false
	}
	e := hostsock.Endpoint{Addr: host, Port: p.DstPort}
	if via := h.listenerFrom(k, &host); via >= 0 && host == k.Remote {
		i, f := h.add(k)
		h.bind(k)
		f.host, f.via = e, int32(via)
		return i, true
	}
	fd, errno := h.connect(e, p.SrcPort)
	if errno != 0 {
		h.openFailed(k, errno)
		return 0, false
	}
	i, f := h.add(k)
	f.host, f.fd = e, int32(fd)
	if host.IsMulticast() {
		f.set(multicast)
	}
	if err := h.cfg.Poller.Add(fd, link.Token(h.cfg.FlowHandler, f.gen, i), poller.Readable); err != nil {
		h.Counters.Limited++
		h.release(i)
		return 0, false
	}
	return i, true
}

// carried says whether datagrams to a leave the guest's link.
func carried(a *header.Addr) bool {
	switch {
	case a.IsLimitedBroadcast():
		return false
	case a.Is4():
		return a[12] != 224 || a[13] != 0 || a[14] != 0 // 224.0.0.0/24 (RFC 5771 section 4)
	case a[0] == 0xff:
		return a[1]&0xf > 2 // interface-local and link-local scope (RFC 4291 section 2.7)
	}
	return true
}

// connect opens a socket connected to e, from port if possible.
func (h *Handler) connect(e hostsock.Endpoint, port uint16) (int, hostsock.Errno) {
	v6 := !e.Addr.Is4()
	fd, errno := hostsock.OpenDatagram(v6)
	for errno == hostsock.EMFILE || errno == hostsock.ENFILE {
		if !h.recycle() {
			return -1, errno
		}
		fd, errno = hostsock.OpenDatagram(v6)
	}
	if errno != 0 {
		return -1, errno
	}
	if errno = h.bindDevice(fd, &e.Addr); errno != 0 {
		hostsock.Close(fd)
		return -1, errno
	}
	local := hostsock.Endpoint{Addr: h.outbound(&e.Addr), Port: port}
	if h.conn.Bind(fd, local, v6) != 0 {
		// Privileged, busy, or an address that the host does not have now.
		h.Counters.OtherPort++
		if errno = h.conn.BindAddress(fd, local.Addr, v6); errno != 0 {
			hostsock.Close(fd)
			return -1, errno
		}
	}
	if errno = h.conn.Connect(fd, e, v6); errno != 0 {
		hostsock.Close(fd)
		return -1, errno
	}
	h.dropStrays(fd)
	_ = hostsock.TakeTrains(fd) // older kernels go without
	return fd, 0
}

// outbound is the source address for datagrams to a.
func (h *Handler) outbound(a *header.Addr) header.Addr {
	switch {
	case a.IsLoopback():
		return header.Addr{}
	case a.Is4():
		return h.cfg.Outbound4
	}
	return h.cfg.Outbound6
}

// bindDevice makes datagrams to a leave by the interface that is asked for.
func (h *Handler) bindDevice(fd int, a *header.Addr) hostsock.Errno {
	device := &h.cfg.Device4
	if !a.Is4() {
		device = &h.cfg.Device6
	}
	if a.IsLoopback() || !device.Given() {
		return 0
	}
	return hostsock.BindToDevice(fd, device)
}

// maxStrays bounds what is dropped from a new socket.
const maxStrays = 64

// dropStrays empties a new socket: between bind and connect anybody could send
// to it, and the guest shall hear its peer only.
func (h *Handler) dropStrays(fd int) {
	for range maxStrays {
		if _, errno := h.calls.Recv(fd, nil); errno != 0 {
			return
		}
		h.Counters.Undeliverable++
	}
}

// openFailed counts a flow that could not be made, and tells the guest why if
// that is what a router would do.
func (h *Handler) openFailed(k *flowtable.Key, errno hostsock.Errno) {
	switch errno {
	case hostsock.EMFILE, hostsock.ENFILE, hostsock.ENOBUFS, hostsock.ENOMEM, hostsock.EAGAIN:
		h.Counters.Limited++
	default:
		h.Counters.SendFailed++
		h.tellUnreachable(k, errno)
	}
}
