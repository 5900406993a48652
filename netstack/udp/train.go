package udp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// train is a run of datagrams of one flow, all of one size but for the last, which
// may be shorter: the host's kernel takes such a run in one call and cuts it again
// (UDP_SEGMENT). Only what is on the guest's ring already is put together.
type train struct {
	flow     uint32
	manner   manner
	segs     int // 0: none waits
	segBytes int
	bytes    int
	vecs     []iov.Vec
}

// maxTrainBytes is what one call takes at most, over IPv4 (udp(7)).
const maxTrainBytes = 65507

// board adds n bytes of datagrams of segBytes each, the payload of fr, to the train,
// which leaves at once if nothing can join any more.
func (h *Handler) board(i uint32, fr *link.Frame, n, segBytes int) {
	t := &h.train
	m := mannerOf(&fr.Packet)
	full := t.bytes%max(t.segBytes, 1) != 0 || n > t.segBytes || n != segBytes || n == 0 ||
		t.segs == hostsock.MaxTrain || t.bytes+n > maxTrainBytes || len(t.vecs)+len(fr.Vecs) > hostsock.MaxVecs
	if t.segs > 0 && (full || t.flow != i || t.manner != m) {
		h.depart()
	}
	if t.segs == 0 {
		*t = train{flow: i, manner: m, segBytes: segBytes, vecs: t.vecs[:0]}
	}
	t.vecs, _ = fr.AppendPayload(t.vecs)
	t.bytes += n
	t.segs += max(1, (n+segBytes-1)/max(segBytes, 1))
	if f := h.flows.at(i); t.segs >= hostsock.MaxTrain || segBytes >= int(f.single) || n == 0 || f.has(multicast) || fr.Packet.Reassembled {
		h.depart()
	}
}

// depart sends the train that waits, if there is one.
func (h *Handler) depart() {
	t := &h.train
	segs := t.segs
	if segs == 0 {
		return
	}
	t.segs = 0 // whatever happens, it is not sent again
	f := h.flows.at(t.flow)
	h.prepare(f, t.manner)
	if segs == 1 {
		h.send(f, t.manner.ttl, t.vecs, t.bytes)
		return
	}
	for off := 0; off < t.bytes; {
		n := min(t.bytes-off, max(1, min(hostsock.MaxTrain, maxTrainBytes/t.segBytes))*t.segBytes)
		vs := t.vecs
		if n < t.bytes {
			h.gather = iov.AppendRange(h.gather[:0], t.vecs, off, n)
			vs = h.gather
		}
		if !h.sendTrain(f, vs, n) {
			h.sendSingly(f, off, n)
		}
		off += n
	}
}

// sendTrain sends n bytes of the train at once. It returns false if the datagrams
// have to be sent one by one, since the kernel does not take the train or has an
// error to report; nothing was sent then.
func (h *Handler) sendTrain(f *flow, vs []iov.Vec, n int) bool {
	t := &h.train
	if n <= t.segBytes || t.segBytes >= int(f.single) || f.has(multicast) {
		return false
	}
	var errno hostsock.Errno
	if f.fd >= 0 {
		_, errno = h.calls.SendTrain(int(f.fd), vs, uint16(t.segBytes))
	} else {
		l := &h.listeners[f.via]
		_, errno = h.calls.SendTrainTo(l.FD, vs, uint16(t.segBytes), f.host, l.V6, &f.from, t.manner.ttl)
	}
	segs := uint64((n + t.segBytes - 1) / t.segBytes)
	switch errno {
	case 0:
		h.Counters.Trains++
	case hostsock.EAGAIN, hostsock.ENOBUFS:
	case hostsock.EFAULT:
		h.memoryGone(errno)
	case hostsock.EINVAL, hostsock.EMSGSIZE:
		f.single = uint16(t.segBytes) // larger than the path's MTU: the host fragments, or says so
		return false
	case hostsock.EIO, hostsock.EOPNOTSUPP:
		f.single = 1
		return false
	default:
		return false
	}
	h.sent(errno, segs, n)
	return true
}

// sendSingly sends n bytes of the train, from off on, one datagram at a time.
func (h *Handler) sendSingly(f *flow, off, n int) {
	t := &h.train
	h.cfg.Link.ExtraSends += n / t.segBytes
	for end := off + n; off < end; off += t.segBytes {
		n := min(t.segBytes, end-off)
		h.gather = iov.AppendRange(h.gather[:0], t.vecs, off, n)
		h.send(f, t.manner.ttl, h.gather, n)
	}
}
