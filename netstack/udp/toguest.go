package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/datagram"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// runDatagrams is what one socket may deliver before the others have their turn.
const runDatagrams = 64

// toGuest delivers what the socket of f has, up to the budget of a run.
func (h *Handler) toGuest(i uint32, f *flow) {
	for range runDatagrams {
		vs, ok := h.out.Open(f.v6(), int(f.expect))
		if !ok {
			f.set(onParked)
			h.parked = append(h.parked, i)
			return
		}
		n, errno := h.calls.Recv(int(f.fd), vs)
		if errno != 0 {
			h.out.Cancel()
			if errno == hostsock.EAGAIN || errno == hostsock.ENOMEM || h.memoryGone(errno) {
				return
			}
			// An error of an earlier datagram, reported once (udp(7)).
			h.flowErrors(f)
			continue
		}
		h.deliver(i, f, n)
	}
	h.makeReady(i, f)
}

// deliver makes the frame of a datagram of n bytes that was received for f.
func (h *Handler) deliver(i uint32, f *flow, n int) {
	p := datagram.Packet{Src: f.key.Remote, Dst: f.key.Local, Proto: header.ProtoUDP}
	header.PutUDP(p.L4[:], f.key.RemotePort, f.key.LocalPort, 0)
	h.out.Finish(&p, n)
	f.expect = nextExpect(f.expect, n)
	h.used(i, f, &f.fromHost)
}

// nextExpect follows the sizes of datagrams: up at once, down slowly.
func nextExpect(expect uint16, n int) uint16 {
	if n >= int(expect) {
		return uint16(n)
	}
	return expect - uint16((int(expect)-n+7)/8)
}
