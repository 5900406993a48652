package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/datagram"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// runDatagrams is what one socket may deliver before the others have their turn.
const runDatagrams = 64

// A receive fails with an error of an earlier datagram, once (udp(7)), or with one
// that lasts, such as a lack of memory. Then the socket waits: the poller does not
// tell again of what is in it, but asking all the time helps nobody.
const (
	maxUnexplained = 4 // errors in a run that the error queue does not explain
	retryMs        = 20
)

// retryLater makes the sockets that are parked go on, whether there are buffers or
// not.
func (h *Handler) retryLater() {
	h.Counters.Retried++
	if h.retryAtMs == 0 {
		h.retryAtMs = h.cfg.Link.NowMs + retryMs
	}
}

// park makes f wait for buffers of the guest, or for better times.
func (h *Handler) park(i uint32, f *flow) {
	f.set(onParked)
	h.parked = append(h.parked, i)
}

// toGuest delivers what the socket of f has, up to the budget of a run.
func (h *Handler) toGuest(i uint32, f *flow) {
	total, ask, unexplained := 0, int(max(1, f.burst)), 0
	for total < runDatagrams {
		got, errno, ok := h.receive(i, f, ask)
		if !ok {
			h.park(i, f)
			return
		}
		switch {
		case errno == hostsock.EAGAIN || errno != 0 && h.memoryGone(errno):
			f.burst = uint8(min(total, hostsock.MaxMany))
			return
		case errno != 0:
			if !h.flowErrors(f) {
				if unexplained++; unexplained == maxUnexplained {
					h.park(i, f)
					h.retryLater()
					return
				}
			}
			total++
		case got == ask:
			ask = min(2*ask, hostsock.MaxMany)
		default:
			ask = 1 // most likely nothing is left
		}
		total += got
	}
	f.burst = hostsock.MaxMany
	h.makeReady(i, f)
}

// receive takes up to most messages from the socket of f to the guest and returns how
// many there were. ok is false if the guest has no buffers. How many are asked for
// follows from how many there were lately: room that stays empty is for nothing.
func (h *Handler) receive(i uint32, f *flow, most int) (got int, errno hostsock.Errno, ok bool) {
	p := datagram.Packet{Src: f.key.Remote, Dst: f.key.Local, Proto: header.ProtoUDP}
	header.PutUDP(p.L4[:], f.key.RemotePort, f.key.LocalPort, 0)
	if most == 1 || f.has(trains) {
		vs, ok := h.out.Open(f.v6(), int(f.expect))
		if !ok {
			return 0, 0, false
		}
		n, segBytes, errno := h.calls.RecvTrain(int(f.fd), vs)
		if errno != 0 {
			h.out.Cancel()
			return 0, errno, true
		}
		h.out.FinishTrain(&p, n, segBytes)
		h.delivered(i, f, n, segBytes)
		return 1, 0, true
	}
	n := h.out.OpenMany(f.v6(), int(f.expect), most)
	if n == 0 {
		return 0, 0, false
	}
	for s := range n {
		h.many.Into(s, h.out.Slot(s))
	}
	if got, errno = h.many.Recv(int(f.fd), n); errno != 0 {
		h.out.Cancel()
		return 0, errno, true
	}
	ms := h.messages[:got]
	for s := range ms {
		ms[s].Bytes, ms[s].SegBytes = h.many.Message(s)
	}
	h.out.FinishMany(&p, ms)
	for _, m := range ms {
		h.delivered(i, f, m.Bytes, m.SegBytes)
	}
	return got, 0, true
}

// delivered notes a message of f: a datagram, or a train of them.
func (h *Handler) delivered(i uint32, f *flow, n, segBytes int) {
	if n > segBytes {
		f.set(trains)
	} else {
		f.clear(trains)
	}
	f.expect = nextExpect(f.expect, n)
	h.used(i, f, &f.fromHost)
	if n > segBytes {
		h.used(i, f, &f.fromHost) // more than an answer
	}
}

// deliver makes the frame of a datagram of n bytes that was received for f.
func (h *Handler) deliver(i uint32, f *flow, n int) {
	p := datagram.Packet{Src: f.key.Remote, Dst: f.key.Local, Proto: header.ProtoUDP}
	header.PutUDP(p.L4[:], f.key.RemotePort, f.key.LocalPort, 0)
	h.out.Finish(&p, n)
	h.delivered(i, f, n, n)
}

// nextExpect follows the sizes of datagrams: up at once, down slowly.
func nextExpect(expect uint16, n int) uint16 {
	if n >= int(expect) {
		return uint16(n)
	}
	return expect - uint16((int(expect)-n+7)/8)
}
