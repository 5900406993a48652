package datagram

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// maxHeaders is the size of all headers in front of a payload, at most.
const maxHeaders = header.EthLen + header.IPv6Len + header.FragmentLen + l4Bytes

// mtu is the guest's MTU, or what every host has to take if that is more (RFC
// 791 section 3.2, RFC 8200 section 5).
func (w *Writer) mtu(v6 bool) int {
	if v6 {
		return max(w.link.MTU, 1280)
	}
	return max(w.link.MTU, 68)
}

// unfragmented is the largest payload that goes into one packet.
func (w *Writer) unfragmented(v6 bool) int { return w.mtu(v6) - ipLen(v6) - l4Bytes }

// segments says whether the guest cuts trains of datagrams.
func (w *Writer) segments(v6 bool) bool {
	feature := uint64(header.FeatureGuestUSO4)
	if v6 {
		feature = header.FeatureGuestUSO6
	}
	return w.link.Has(feature | header.FeatureGuestCsum)
}

// takesLarge says whether the guest takes UDP datagrams larger than its MTU as one
// frame, which says how to fragment them.
func (w *Writer) takesLarge() bool {
	return w.link.Has(header.FeatureGuestUFO | header.FeatureGuestCsum)
}

// fragmentBytes is how much of a datagram goes into each fragment but the last.
func (w *Writer) fragmentBytes(v6 bool) int {
	n := w.mtu(v6) - ipLen(v6)
	if v6 {
		n -= header.FragmentLen
	}
	return n &^ 7
}

// putHeaders writes the headers of a datagram in one frame, whose payload is
// the beginning of payload, to b; or of a train of them, of segBytes each.
func (w *Writer) putHeaders(b []byte, p *Packet, payloadBytes, segBytes int, payload []iov.Vec) (v header.Vnet, n int) {
	n = header.PutEth(b, w.link.GuestMAC, w.link.OurMAC, etherType(p))
	h := header.IP{Src: p.Src, Dst: p.Dst, Proto: p.Proto, TTL: ttl, DF: true}
	large := segBytes > w.unfragmented(!p.Dst.Is4())
	if large { // who passes it on fragments it
		w.id++
		h.DF, h.ID = false, uint16(w.id)
	}
	n += header.PutIP(b[n:], &h, l4Bytes+payloadBytes)
	l4 := b[n : n+l4Bytes]
	putTransport(l4, p, payloadBytes)
	if p.Proto == header.ProtoUDP && w.link.Has(header.FeatureGuestCsum) {
		header.SetPartialChecksum(l4, &p.Src, &p.Dst, p.Proto, l4Bytes+payloadBytes)
		v = header.Vnet{Flags: header.VnetNeedsCsum, CsumStart: uint16(n), CsumOffset: header.UDPCsumOffset}
		switch {
		case large:
			v.GSOType, v.GSOSize, v.HdrLen = header.GSOUDP, uint16(w.fragmentBytes(!p.Dst.Is4())), uint16(n+l4Bytes)
		case payloadBytes > segBytes:
			v.GSOType, v.GSOSize, v.HdrLen = header.GSOUDPL4, uint16(segBytes), uint16(n+l4Bytes)
		}
	} else {
		w.sum = iov.AppendRange(w.sum[:0], payload, 0, payloadBytes)
		header.SetChecksumVecs(l4, w.sum, &p.Src, &p.Dst, p.Proto)
	}
	return v, n + l4Bytes
}

func putTransport(l4 []byte, p *Packet, payloadBytes int) {
	copy(l4, p.L4[:])
	if p.Proto == header.ProtoUDP {
		n := l4Bytes + payloadBytes
		l4[4], l4[5] = byte(n>>8), byte(n)
	}
}

func etherType(p *Packet) uint16 {
	if p.Dst.Is4() {
		return header.EtherTypeIPv4
	}
	return header.EtherTypeIPv6
}

// outcome is what became of a datagram that was to be written.
type outcome uint8

const (
	written outcome = iota
	waits           // for buffers; some fragments may have gone already
	never           // will not be: no ring, or buffers that cannot hold its frames
)

// write makes frames of d, transport header and payload, whose header it fills in: one
// for a datagram, or for a train of segBytes each, written whole or not at all; or
// fragments, which go as there are buffers for them: w.off says how far they went.
func (w *Writer) write(d []byte, segBytes int) outcome {
	v6 := !w.p.Dst.Is4()
	if segBytes <= w.unfragmented(v6) {
		room, ok := w.writeFrame(d, segBytes)
		if !ok {
			return w.noRoom(room)
		}
		return written
	}
	if w.off == 0 && w.p.Proto == header.ProtoUDP && w.takesLarge() {
		if _, ok := w.writeFrame(d, segBytes); ok {
			return written
		}
		// The ring may be too small for it, but hardly for a fragment.
	}
	return w.writeFragments(d, v6)
}

// writeFrame makes one frame of d. It returns false if there is too little room.
func (w *Writer) writeFrame(d []byte, segBytes int) (room int, ok bool) {
	p, payloadBytes := &w.p, len(d)-l4Bytes
	hdrBytes := header.EthLen + ipLen(!p.Dst.Is4()) + l4Bytes
	ask := max(payloadBytes, 1) // an empty datagram has a frame, too
	if room = w.queue.Begin(hdrBytes, ask); room < ask {
		w.queue.Cancel()
		return room, false
	}
	payload := w.queue.Payload()
	iov.CopyIn(payload, 0, d[l4Bytes:])
	var hdr [maxHeaders]byte
	v, n := w.putHeaders(hdr[:], p, payloadBytes, segBytes, payload)
	w.queue.End(payloadBytes, v, hdr[:n])
	w.queue.Cancel()
	w.count(payloadBytes, segBytes)
	return room, true
}

// noRoom says what a frame can hope for that the queue gave room to, or 0, where it
// needs more. Where frames may not span buffers, the next one is as small.
func (w *Writer) noRoom(room int) outcome {
	if !w.queue.Attached() || !w.queue.Mergeable() && room > 0 {
		return never
	}
	return waits
}

func (w *Writer) count(payloadBytes, segBytes int) {
	if payloadBytes > segBytes {
		w.Counters.Trains++
	}
	w.Counters.Datagrams += uint64(datagrams(payloadBytes, segBytes))
	w.Counters.Bytes += uint64(payloadBytes)
}

// datagrams is how many there are in bytes of payload.
func datagrams(bytes, segBytes int) int {
	if bytes <= segBytes {
		return 1
	}
	return (bytes + segBytes - 1) / segBytes
}

// writeFragments is write for a datagram larger than the guest's MTU (RFC 791
// section 3.2, RFC 8200 section 4.5). It goes on at w.off. The fragments need not
// be on the ring at one time: a ring may have fewer buffers than they need.
func (w *Writer) writeFragments(d []byte, v6 bool) outcome {
	if w.off == 0 {
		putTransport(d, &w.p, len(d)-l4Bytes)
		header.SetChecksum(d, &w.p.Src, &w.p.Dst, w.p.Proto)
		w.id++
	}
	for w.off < len(d) {
		if ended, room := w.placeFragments(&w.p, d, v6); !ended {
			return w.noRoom(room)
		}
	}
	w.off = 0
	w.count(len(d)-l4Bytes, len(d)-l4Bytes)
	w.Counters.Fragmented++
	return written
}

// placeFragments makes frames of as many fragments from w.off on as there are
// buffers for, and moves w.off behind them. If that is none, room is what there is.
func (w *Writer) placeFragments(p *Packet, datagram []byte, v6 bool) (ended bool, room int) {
	hdrBytes := header.EthLen + ipLen(v6)
	if v6 {
		hdrBytes += header.FragmentLen
	}
	unit := w.fragmentBytes(v6)
	end := w.off
	for end < len(datagram) {
		n := min(unit, len(datagram)-end)
		if room = w.queue.Begin(hdrBytes, n); room < n {
			break
		}
		end += n
	}
	iov.CopyIn(w.queue.Payload(), 0, datagram[w.off:end])
	for ; w.off < end; ended = true {
		n := min(unit, len(datagram)-w.off)
		var hdr [maxHeaders]byte
		w.putFragmentHeaders(hdr[:], p, w.off, n, w.off+n < len(datagram))
		w.queue.End(n, header.Vnet{}, hdr[:hdrBytes])
		w.off += n
	}
	w.queue.Cancel()
	return ended, room
}

func (w *Writer) putFragmentHeaders(b []byte, p *Packet, off, n int, more bool) {
	at := header.PutEth(b, w.link.GuestMAC, w.link.OurMAC, etherType(p))
	h := header.IP{Src: p.Src, Dst: p.Dst, Proto: p.Proto, TTL: ttl}
	if p.Dst.Is4() {
		h.ID, h.FragOff, h.FragMore = uint16(w.id), uint16(off), more
		header.PutIPv4(b[at:], &h, n)
		return
	}
	h.Proto = header.ProtoFragment
	at += header.PutIPv6(b[at:], &h, header.FragmentLen+n)
	header.PutFragment(b[at:], p.Proto, w.id, off, more)
}
