package icmp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// Rehome ends the flows whose sockets send from an address that a new one would
// not send from any more, since the host has changed. The guest's next request
// begins the flow anew.
func (h *Handler) Rehome() {
	for i := range h.flows {
		f := &h.flows[i]
		if !f.inUse {
			continue
		}
		now, errno := h.conn.LocalEndpoint(int(f.fd))
		if errno == 0 {
			var then header.Addr
			if then, errno = h.source(f.host); errno == 0 && then == now.Addr {
				continue
			}
		}
		h.Counters.Rehomed++
		h.release(uint32(i))
	}
}

// source returns the address from which a new socket would ping host.
func (h *Handler) source(host header.Addr) (header.Addr, hostsock.Errno) {
	fd, errno := hostsock.OpenPing(!host.Is4())
	if errno != 0 {
		return header.Addr{}, errno
	}
	if errno = h.connect(fd, host, 0); errno != 0 {
		return header.Addr{}, errno
	}
	defer hostsock.Close(fd)
	local, errno := h.conn.LocalEndpoint(fd)
	return local.Addr, errno
}
