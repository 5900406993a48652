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

// putHeaders writes the headers of an unfragmented datagram, whose payload is
// the beginning of payload, to b.
func (w *Writer) putHeaders(b []byte, p *Packet, payloadBytes int, payload []iov.Vec) (v header.Vnet, n int) {
	n = header.PutEth(b, w.link.GuestMAC, w.link.OurMAC, etherType(p))
	h := header.IP{Src: p.Src, Dst: p.Dst, Proto: p.Proto, TTL: ttl, DF: true}
	n += header.PutIP(b[n:], &h, l4Bytes+payloadBytes)
	l4 := b[n : n+l4Bytes]
	putTransport(l4, p, payloadBytes)
	if p.Proto == header.ProtoUDP && w.link.Has(header.FeatureGuestCsum) {
		header.SetPartialChecksum(l4, &p.Src, &p.Dst, p.Proto, l4Bytes+payloadBytes)
		v = header.Vnet{Flags: header.VnetNeedsCsum, CsumStart: uint16(n), CsumOffset: header.UDPCsumOffset}
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

// write makes frames of the datagram whose payload is in w.whole. It returns
// false, and has written nothing, if there are not enough buffers.
func (w *Writer) write(p *Packet, payloadBytes int) bool {
	v6 := !p.Dst.Is4()
	if payloadBytes > w.unfragmented(v6) {
		return w.writeFragments(p, payloadBytes, v6)
	}
	hdrBytes := header.EthLen + ipLen(v6) + l4Bytes
	ask := max(payloadBytes, 1) // an empty datagram has a frame, too
	if w.queue.Begin(hdrBytes, ask) < ask {
		w.queue.Cancel()
		return false
	}
	payload := w.queue.Payload()
	iov.CopyIn(payload, 0, w.whole[l4Bytes:l4Bytes+payloadBytes])
	var hdr [maxHeaders]byte
	v, n := w.putHeaders(hdr[:], p, payloadBytes, payload)
	w.queue.End(payloadBytes, v, hdr[:n])
	w.queue.Cancel()
	w.count(payloadBytes)
	return true
}

func (w *Writer) count(payloadBytes int) {
	w.Counters.Datagrams++
	w.Counters.Bytes += uint64(payloadBytes)
}

// writeFragments is write for a datagram larger than the guest's MTU (RFC 791
// section 3.2, RFC 8200 section 4.5). All frames are reserved before one is
// written: a part of a datagram is worth nothing.
func (w *Writer) writeFragments(p *Packet, payloadBytes int, v6 bool) bool {
	total := l4Bytes + payloadBytes
	hdrBytes := header.EthLen + ipLen(v6)
	unit := w.mtu(v6) - ipLen(v6)
	if v6 {
		hdrBytes += header.FragmentLen
		unit -= header.FragmentLen
	}
	unit &^= 7
	for off := 0; off < total; off += unit {
		n := min(unit, total-off)
		if w.queue.Begin(hdrBytes, n) < n {
			w.queue.Cancel()
			return false
		}
	}
	datagram := w.whole[:total]
	putTransport(datagram, p, payloadBytes)
	header.SetChecksum(datagram, &p.Src, &p.Dst, p.Proto)
	iov.CopyIn(w.queue.Payload(), 0, datagram)
	w.id++
	for off := 0; off < total; off += unit {
		n := min(unit, total-off)
		var hdr [maxHeaders]byte
		w.putFragmentHeaders(hdr[:], p, off, n, off+n < total)
		w.queue.End(n, header.Vnet{}, hdr[:hdrBytes])
	}
	w.count(payloadBytes)
	w.Counters.Fragmented++
	return true
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
