package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// Rehome is called when the host or the mapping has changed. Sockets may no longer
// do what new ones would: a connected socket sends from the address that the host
// had when it was connected, for ever. Where that is so, the guest's next datagram
// begins the flow anew. Nothing is looked at before there is one, since that takes
// several system calls a flow, of which there may be thousands. Flows of listeners
// are as good as they were.
func (h *Handler) Rehome() { h.era++ }

// leftHome looks at flow i, to which the guest sends for the first time since
// Rehome. It reports whether the flow has ended.
func (h *Handler) leftHome(i uint32) bool {
	f := h.flows.at(i)
	f.era = h.era
	if f.fd < 0 || h.isHome(f) {
		return false
	}
	h.Counters.Rehomed++
	h.release(i)
	return true
}

// isHome says whether a new socket for f would have the same ends.
func (h *Handler) isHome(f *flow) bool {
	p := header.Packet{
		V6: f.v6(), Proto: header.ProtoUDP, Src: f.key.Local, Dst: f.key.Remote,
		SrcPort: f.key.LocalPort, DstPort: f.key.RemotePort,
	}
	host, why := h.cfg.Map.FromGuest(&p)
	if why != addrmap.OK || host != f.host.Addr {
		return false
	}
	now, errno := h.conn.LocalEndpoint(int(f.fd))
	if errno != 0 {
		return false
	}
	then, errno := h.source(f.host)
	return errno == 0 && then.Addr == now.Addr
}

// source returns the address from which a new socket would send to e.
func (h *Handler) source(e hostsock.Endpoint) (hostsock.Endpoint, hostsock.Errno) {
	v6 := !e.Addr.Is4()
	fd, errno := hostsock.OpenDatagram(v6)
	if errno != 0 {
		return hostsock.Endpoint{}, errno
	}
	defer hostsock.Close(fd)
	if errno = h.bindDevice(fd, &e.Addr); errno != 0 {
		return hostsock.Endpoint{}, errno
	}
	if errno = h.conn.BindAddress(fd, h.outbound(&e.Addr), v6); errno != 0 {
		return hostsock.Endpoint{}, errno
	}
	if errno = h.conn.Connect(fd, e, v6); errno != 0 {
		return hostsock.Endpoint{}, errno
	}
	return h.conn.LocalEndpoint(fd)
}
