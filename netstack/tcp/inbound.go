package tcp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
)

// Listener is a listening socket of the host whose connections go to the guest.
type Listener struct {
	FD int
	// Target is the guest's address; the zero Addr takes the guest's own, of
	// the family of each connection.
	Target header.Addr
	Port   uint16 // in the guest
}

// Listen takes over a listening socket: the handler accepts from it and closes
// it in Close.
func (h *Handler) Listen(l Listener) error {
	i := len(h.listeners)
	if err := h.cfg.Poller.Add(l.FD, link.Token(h.cfg.ListenHandler, 0, uint32(i)), poller.Readable); err != nil {
		return err
	}
	h.listeners = append(h.listeners, l)
	return nil
}

// ListenEvent accepts what a listener has.
func (h *Handler) ListenEvent(token uint64) {
	_, _, i := link.SplitToken(token)
	if int(i) < len(h.listeners) {
		h.acceptAll(&h.listeners[i])
	}
}

const (
	// acceptTurn bounds the connections that a listener takes in a turn.
	acceptTurn = 256
	// acceptWaitMs is when a listener that ran out of descriptors tries again.
	acceptWaitMs = 100
)

// acceptAll accepts until there is nothing more, since the poller tells of each
// edge only once, or until its turn is over and the clock has to remind us.
func (h *Handler) acceptAll(l *Listener) {
	again := int64(0)
	for range acceptTurn {
		fd, peer, errno := h.calls.Accept(l.FD)
		switch errno {
		case 0:
			h.accepting = fd
			h.accept(l, fd, peer)
			h.accepting = -1
		case hostsock.EAGAIN:
			return
		case hostsock.EMFILE, hostsock.ENFILE, hostsock.ENOBUFS, hostsock.ENOMEM:
			h.Counters.Limited++
			h.acceptAgain(acceptWaitMs)
			return
		default:
			// The connection is gone already (accept(2), "Error handling"),
			// or the listener is: then this error comes for ever.
			again = acceptWaitMs
		}
	}
	h.acceptAgain(again)
}

func (h *Handler) acceptAgain(waitMs int64) {
	if at := h.cfg.Link.NowMs + waitMs; h.acceptAtMs == 0 || at < h.acceptAtMs {
		h.acceptAtMs = at
	}
}

// accept begins a flow for a connection of the host's side.
func (h *Handler) accept(l *Listener, fd int, peer hostsock.Endpoint) {
	local := l.Target
	if local == (header.Addr{}) {
		local = h.guestAddr(peer.Addr.Is4())
	}
	remote, why := h.cfg.Map.ToGuest(&peer.Addr, &local)
	if why != addrmap.OK || local == (header.Addr{}) || remote.Is4() != local.Is4() {
		h.Counters.Dropped++
		hostsock.Abort(fd)
		return
	}
	k := flowtable.Key{
		Local: local, Remote: remote,
		LocalPort: l.Port, RemotePort: peer.Port, Proto: header.ProtoTCP,
	}
	if o := h.cfg.Link.Others; o != nil && o.Place(k, &arrival{key: k, fd: fd}) {
		return
	}
	h.begin(&k, fd)
}

// arrival is a connection of the host's side that another worker begins.
type arrival struct {
	key flowtable.Key
	fd  int
}

// begin begins the flow k of a connection of the host's side.
func (h *Handler) begin(k *flowtable.Key, fd int) {
	if i, busy := h.table.Lookup(k); busy {
		// The host has reused a 4-tuple that it is done with: what is left of
		// the old connection cannot matter to it any more.
		if f := h.flows.at(i); f.state == timeWait {
			h.release(i, f)
		} else {
			h.resetBoth(i, f)
		}
		if _, busy = h.table.Lookup(k); busy {
			hostsock.Abort(fd)
			return
		}
	}
	i, f := h.add(k)
	if f == nil {
		hostsock.Abort(fd)
		if o := h.cfg.Link.Others; o != nil {
			o.Disown(*k)
		}
		return
	}
	h.Counters.Accepted++
	h.accepting = -1
	f.fd, f.state = int32(fd), synSent
	f.listAt = uint32(len(h.waiting))
	h.waiting = append(h.waiting, i)
	f.set(accepted | sackOK | noDelay) // inherited from the listener
	f.gotWScale, f.rcvShift = true, h.windowShift
	f.rcvEdge = firstWindow
	f.rcvSpan = firstWindow
	f.mss = defaultMSS4
	h.startSending(f)
	if err := h.cfg.Poller.Add(fd, link.Token(h.cfg.FlowHandler, f.gen, i), everything); err != nil {
		h.Counters.Limited++
		h.abortHost(f)
		h.release(i, f)
		return
	}
	h.trySyn(i, f)
}

// guestAddr is where connections go that name no address of the guest.
func (h *Handler) guestAddr(v4 bool) header.Addr {
	if v4 {
		return h.cfg.Link.Guest4
	}
	return h.cfg.Link.Guest6
}

// trySyn sends the SYN of an inbound flow, if there is a guest to send it to,
// and sets the time of the next try.
func (h *Handler) trySyn(i uint32, f *flow) {
	if h.cfg.Link.GuestMAC == header.Broadcast {
		h.cfg.Link.WantGuest = true
	} else if h.cfg.Queue.Attached() {
		h.sendSyn(f, header.TCPSyn)
	}
	h.armRTO(i, f)
}

// GuestAppeared is called when the guest becomes reachable: its ring is there,
// or its address was learned. Inbound connections that wait are tried at once.
func (h *Handler) GuestAppeared() {
	for _, i := range h.waiting {
		f := h.flows.at(i)
		f.retries = 0
		h.trySyn(i, f)
	}
}

// guestAnswered handles a segment of the guest for a flow in synSent (RFC 9293
// section 3.10.7.3).
func (h *Handler) guestAnswered(i uint32, f *flow, t header.TCP) {
	flags := t.Flags()
	acceptable := flags&header.TCPAck != 0 && t.Ack() == f.sndNxt
	switch {
	case flags&header.TCPAck != 0 && !acceptable:
		if flags&header.TCPRst == 0 {
			// The guest holds an old connection of this name. It is gone with
			// this RST, and the next SYN finds the port free.
			h.sendReset(&f.key, t, 0)
			h.trySyn(i, f)
		}
	case flags&header.TCPRst != 0:
		if acceptable {
			h.Counters.Refused++
			h.abortHost(f)
			h.release(i, f)
		}
	case flags&header.TCPSyn != 0 && acceptable:
		h.readSyn(f, t)
		f.sndUna, f.recover = f.sndNxt, f.sndUna
		f.set(ackNow)
		h.oweAck(i, f)
		h.establish(i, f)
	}
}

// establish makes f a full connection: data may flow both ways.
func (h *Handler) establish(i uint32, f *flow) {
	h.unlist(f)
	f.state = established
	f.retries = 0
	f.clear(rtoArmed)
	h.Counters.Opened++
	if f.has(hostReadable) {
		h.makeReady(i, f) // what came meanwhile
	}
	h.schedule(i, f)
}
