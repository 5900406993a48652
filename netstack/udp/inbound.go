package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
)

// Listener is a socket of the host whose datagrams go to the guest, as
// hostsock.ListenDatagram makes it.
type Listener struct {
	FD   int
	V6   bool // family of the socket
	Dual bool // V6, and takes IPv4 as well
	// Any says that the socket is bound to no particular address, so that the
	// guest can reach the world from it.
	Any bool
	// Target is the guest's address; the zero Addr takes the guest's own, of
	// the family of each datagram.
	Target header.Addr
	Port   uint16 // in the guest
}

type listener struct {
	Listener
	readable    bool
	unexplained uint8 // errors of this run that the error queue does not explain
	expect      uint16
}

// Listen takes over a listening socket: the handler closes it in Close.
func (h *Handler) Listen(l Listener) error {
	if err := h.cfg.Poller.Add(l.FD, link.Token(h.cfg.ListenHandler, 0, uint32(len(h.listeners))), poller.Readable); err != nil {
		return err
	}
	h.know(l)
	return nil
}

func (h *Handler) know(l Listener) {
	j := len(h.listeners)
	h.listeners = append(h.listeners, listener{Listener: l})
	h.byPort[l.Port] = append(h.byPort[l.Port], j)
}

// ListenEvent handles readiness of a listener.
func (h *Handler) ListenEvent(token uint64, ready poller.Readiness) {
	_, _, j := link.SplitToken(token)
	if int(j) >= len(h.listeners) {
		return
	}
	l := &h.listeners[j]
	if ready&(poller.Readable|poller.HungUp) != 0 {
		l.readable = true
		h.readyListen = true
	}
	if ready&poller.Failed != 0 {
		h.listenerErrors(l)
	}
}

// listenerFrom returns the listener through which the guest can call from the
// local endpoint of k to host, or -1.
func (h *Handler) listenerFrom(k *flowtable.Key, host *header.Addr) int {
	for _, j := range h.byPort[k.LocalPort] {
		l := &h.listeners[j]
		family := l.V6 != host.Is4() || l.Dual
		if l.Any && family && (l.Target == header.Addr{} || l.Target == k.Local) && !host.IsMulticast() {
			return j
		}
	}
	return -1
}

func (h *Handler) runListeners() {
	h.readyListen = false
	for j := range h.listeners {
		if !h.listeners[j].readable {
			continue
		}
		if !h.fromListener(j) {
			h.parkedListen = true
			continue
		}
		h.readyListen = h.readyListen || h.listeners[j].readable
	}
}

// fromListener delivers what a listener has, up to the budget of a run. It
// returns false if the guest has no buffers, or the socket fails: there is more.
func (h *Handler) fromListener(j int) bool {
	l := &h.listeners[j]
	l.unexplained = 0
	var a hostsock.Arrival
	for range runDatagrams {
		if l.unexplained == maxUnexplained {
			h.retryLater()
			return false
		}
		v6 := l.V6
		if l.Dual {
			if _, errno := h.calls.PeekFrom(l.FD, &a); errno != 0 {
				if h.listenFailed(l, errno) {
					return true
				}
				continue
			}
			v6 = !a.Peer.Addr.Is4()
		}
		vs, ok := h.out.Open(v6, int(l.expect))
		if !ok {
			return false
		}
		n, errno := h.calls.RecvFrom(l.FD, vs, &a)
		if errno != 0 {
			h.out.Cancel()
			if h.listenFailed(l, errno) {
				return true
			}
			continue
		}
		i, f := h.inbound(j, l, &a, v6)
		if f == nil {
			h.out.Cancel()
			h.Counters.Undeliverable++
			continue
		}
		l.expect = nextExpect(l.expect, n)
		h.deliver(i, f, n)
	}
	return true
}

// listenFailed handles a failed receive; true means that nothing is left.
func (h *Handler) listenFailed(l *listener, errno hostsock.Errno) bool {
	if errno == hostsock.EAGAIN || h.memoryGone(errno) {
		l.readable = false
		return true
	}
	if !h.listenerErrors(l) {
		l.unexplained++
	}
	return false
}

// inbound returns the flow of a datagram that came through listener j, a new
// one if need be; nil if the datagram cannot be shown to the guest.
func (h *Handler) inbound(j int, l *listener, a *hostsock.Arrival, v6 bool) (uint32, *flow) {
	k, ok := h.inboundKey(l, &a.Peer)
	if !ok || k.Local.Is4() == v6 || a.Peer.Port == 0 || a.Local.IsMulticast() || a.Local.IsLimitedBroadcast() {
		return 0, nil
	}
	i, found := h.table.Lookup(&k)
	if !found {
		var f *flow
		if o := h.cfg.Link.Others; o != nil && o.Elsewhere(k, nil) {
			return 0, nil // as below; what comes next finds the flow here
		}
		i, f = h.add(&k)
		h.bind(&k)
		h.Counters.Inbound++
		f.host, f.from, f.via = a.Peer, a.Local, int32(j)
		if h.cfg.Link.GuestMAC == header.Broadcast {
			h.cfg.Link.WantGuest = true
		}
		return i, f
	}
	f := h.flows.at(i)
	if f.fd >= 0 {
		return 0, nil // looks like the peer of a flow that the guest began
	}
	// Two peers that look the same to the guest: the last one is answered.
	f.host, f.from, f.via = a.Peer, a.Local, int32(j)
	return i, f
}

// inboundKey is the flow of what peer sends through l.
func (h *Handler) inboundKey(l *listener, peer *hostsock.Endpoint) (k flowtable.Key, ok bool) {
	local := l.Target
	if local == (header.Addr{}) {
		local = h.guestAddr(&peer.Addr)
	}
	if local == (header.Addr{}) || local.Is4() != peer.Addr.Is4() {
		return k, false
	}
	remote, why := h.cfg.Map.ToGuest(&peer.Addr, &local)
	if own := h.cfg.Link.GuestLinkLocal; l.Target == (header.Addr{}) && remote.IsLinkLocal() && !remote.Is4() && own != (header.Addr{}) {
		// A server that is bound to no address answers from this one, whatever
		// it was asked at (RFC 6724 section 5, rule 2).
		local = own
	}
	k = flowtable.Key{
		Local: local, Remote: remote,
		LocalPort: l.Port, RemotePort: peer.Port, Proto: header.ProtoUDP,
	}
	return k, why == addrmap.OK && remote.Is4() == local.Is4()
}

// guestAddr is where datagrams of peer go that name no address of the guest.
func (h *Handler) guestAddr(peer *header.Addr) header.Addr {
	switch {
	case peer.Is4():
		return h.cfg.Link.Guest4
	case peer.IsLinkLocal() && h.cfg.Link.GuestLinkLocal != header.Addr{}:
		return h.cfg.Link.GuestLinkLocal
	}
	return h.cfg.Link.Guest6
}
