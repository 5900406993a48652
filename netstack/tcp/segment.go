package tcp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// hopLimit is the TTL of segments to the guest.
const hopLimit = 64

// putIP writes Ethernet and IP headers towards the guest for the 4-tuple of k
// and returns their length. The IP length covers payloadBytes behind them.
func (h *Handler) putIP(b []byte, k *flowtable.Key, payloadBytes int) int {
	ip := header.IP{Src: k.Remote, Dst: k.Local, Proto: header.ProtoTCP, TTL: hopLimit, DF: true}
	n := header.PutEth(b, h.cfg.Link.GuestMAC, h.cfg.Link.OurMAC, ip.EtherType())
	return n + header.PutIP(b[n:], &ip, payloadBytes)
}

// headerBytes is the length of the headers of f's segments without options.
func headerBytes(f *flow) int {
	if f.v6() {
		return header.EthLen + header.IPv6Len + header.TCPLen
	}
	return header.EthLen + header.IPv4Len + header.TCPLen
}

// windowField is what f's segments say in the window field: what the guest may
// send, scaled. It also remembers that the guest was told (the acknowledgement
// that every segment carries).
func (h *Handler) windowField(f *flow) uint16 {
	f.lastAcked = f.ackSeq()
	f.clear(ackNow | ackLater)
	w := uint32(0)
	if atOrAfter(f.rcvEdge, f.lastAcked) {
		w = f.rcvEdge - f.lastAcked
	}
	if unit := uint32(1) << f.rcvShift; w > 0 && w < unit {
		// A little room must not look like none: the socket will not tell when
		// there is more. What it does not take is kept in the stash.
		w = unit
		f.rcvEdge = f.lastAcked + w
	}
	return uint16(min(w>>f.rcvShift, 0xffff))
}

// putHeaders writes all headers of a segment of f with payloadBytes of data into
// the scratch space and returns them, with a partial checksum, and the vnet header that
// tells the guest so.
func (h *Handler) putHeaders(f *flow, seq uint32, flags uint8, payloadBytes int) (header.Vnet, []byte) {
	n := h.putIP(h.scratch[:], &f.key, header.TCPLen+payloadBytes)
	return h.putTCP(f, n, seq, flags, payloadBytes)
}

// putOptionHeaders is putHeaders with a hop-by-hop header that can say the length
// of a big packet. f is IPv6.
func (h *Handler) putOptionHeaders(f *flow, seq uint32, flags uint8, payloadBytes int) (header.Vnet, []byte) {
	ip := header.IP{Src: f.key.Remote, Dst: f.key.Local, Proto: header.ProtoHopByHop, TTL: hopLimit}
	n := header.PutEth(h.scratch[:], h.cfg.Link.GuestMAC, h.cfg.Link.OurMAC, header.EtherTypeIPv6)
	behind := header.JumboLen + header.TCPLen + payloadBytes
	n += header.PutIPv6(h.scratch[n:], &ip, behind)
	n += header.PutJumbo(h.scratch[n:], header.ProtoTCP, behind)
	return h.putTCP(f, n, seq, flags, payloadBytes)
}

// putTCP goes on behind n bytes of headers in the scratch space.
func (h *Handler) putTCP(f *flow, n int, seq uint32, flags uint8, payloadBytes int) (header.Vnet, []byte) {
	t := header.TCPFields{
		SrcPort: f.key.RemotePort, DstPort: f.key.LocalPort,
		Seq: seq, Ack: f.ackSeq(), Flags: flags, Window: h.windowField(f),
	}
	header.PutTCP(h.scratch[n:], &t, 0)
	return h.offload(&f.key, n, header.TCPLen, payloadBytes)
}

// offload prepares the checksum of the segment in the scratch space, whose TCP
// header starts at l4 and is l4Bytes long.
func (h *Handler) offload(k *flowtable.Key, l4, l4Bytes, payloadBytes int) (header.Vnet, []byte) {
	end := l4 + l4Bytes
	if !h.cfg.Link.Has(header.FeatureGuestCsum) {
		return header.Vnet{}, h.scratch[:end]
	}
	header.SetPartialChecksum(h.scratch[l4:end], &k.Remote, &k.Local, header.ProtoTCP, l4Bytes+payloadBytes)
	return header.Vnet{
		Flags:      header.VnetNeedsCsum,
		CsumStart:  uint16(l4),
		CsumOffset: header.TCPCsumOffset,
	}, h.scratch[:end]
}

// bareSeq is the sequence number of a segment of f without data or FIN: the next
// to send, unless that lies beyond the guest's window, as it does after a probe of
// a closed one and when the guest has taken a part of its window back. The guest
// would drop the segment, and the acknowledgement with it (RFC 9293 section
// 3.10.7.4, first check).
func bareSeq(f *flow) uint32 {
	if edge := f.sndUna + f.sndWnd; f.state == established && before(edge, f.sndNxt) {
		return edge
	}
	return f.sndNxt
}

// sendFlags sends a segment of f without data. It reports false when it was
// lost for want of a ring.
func (h *Handler) sendFlags(f *flow, seq uint32, flags uint8) bool {
	v, hdr := h.putHeaders(f, seq, flags, 0)
	return h.push(&f.key, v, hdr)
}

// push queues a whole segment without data, its checksum made where the guest
// wants it made.
func (h *Handler) push(k *flowtable.Key, v header.Vnet, frame []byte) bool {
	if v.Flags&header.VnetNeedsCsum == 0 {
		l4 := header.EthLen + header.IPv4Len
		if !k.Local.Is4() {
			l4 = header.EthLen + header.IPv6Len
		}
		header.SetChecksum(frame[l4:], &k.Remote, &k.Local, header.ProtoTCP)
	}
	if !h.cfg.Queue.Push(v, frame) {
		return false
	}
	h.Counters.FramesToGuest++
	return true
}

// sendSyn sends the SYN or SYN-ACK of f: MSS always, window scale and
// SACK-permitted where both may use them (RFC 9293 section 3.7.1, RFC 7323
// section 2.2, RFC 2018 section 2).
func (h *Handler) sendSyn(f *flow, flags uint8) bool {
	opts := header.TCPOptMSSLen
	if f.gotWScale {
		opts += header.TCPOptWScaleLen
	}
	if f.has(sackOK) {
		opts += header.TCPOptSACKPermLen
	}
	n := h.putIP(h.scratch[:], &f.key, header.TCPLen+opts)
	window := min(f.rcvEdge-f.hostTaken, 0xffff) // never scaled in a SYN (RFC 7323 section 2.2)
	t := header.TCPFields{
		SrcPort: f.key.RemotePort, DstPort: f.key.LocalPort,
		Seq: f.sndUna, Ack: f.hostTaken, Flags: flags, Window: uint16(window),
	}
	o := n + header.PutTCP(h.scratch[n:], &t, opts)
	o += header.PutTCPMSS(h.scratch[o:], h.ownMSS(f.v6()))
	if f.gotWScale {
		o += header.PutTCPWScale(h.scratch[o:], f.rcvShift)
	}
	if f.has(sackOK) {
		header.PutTCPSACKPermitted(h.scratch[o:])
	}
	f.lastAcked = f.hostTaken
	v, frame := h.offload(&f.key, n, header.TCPLen+opts, 0)
	return h.push(&f.key, v, frame)
}

// ownMSS is the largest segment that the guest may send: what its MTU holds.
func (h *Handler) ownMSS(v6 bool) uint16 {
	overhead := header.IPv4Len + header.TCPLen
	if v6 {
		overhead = header.IPv6Len + header.TCPLen
	}
	return uint16(max(h.cfg.Link.MTU-overhead, 1))
}

const (
	// minMSS keeps a guest from making us send crumbs.
	minMSS = 48
	// defaultMSS4 and defaultMSS6 hold where no option says otherwise (RFC
	// 9293 section 3.7.1).
	defaultMSS4 = 536
	defaultMSS6 = 1220
)

// useMSS notes how large segments to the guest may be, from its option (0: none)
// and its MTU.
func (h *Handler) useMSS(f *flow, option uint16) {
	mss := option
	if mss == 0 {
		mss = defaultMSS4
		if f.v6() {
			mss = defaultMSS6
		}
	}
	f.mss = min(max(mss, minMSS), h.ownMSS(f.v6()))
	f.guestMSS = f.mss
}

// sendReset answers a segment that belongs to no flow (RFC 9293 section
// 3.10.7.1). k is the segment's 4-tuple, end its length in sequence space.
func (h *Handler) sendReset(k *flowtable.Key, t header.TCP, end uint32) {
	f := header.TCPFields{SrcPort: k.RemotePort, DstPort: k.LocalPort}
	if t.Flags()&header.TCPAck != 0 {
		f.Seq, f.Flags = t.Ack(), header.TCPRst
	} else {
		f.Ack, f.Flags = t.Seq()+end, header.TCPRst|header.TCPAck
	}
	n := h.putIP(h.scratch[:], k, header.TCPLen)
	header.PutTCP(h.scratch[n:], &f, 0)
	v, frame := h.offload(k, n, header.TCPLen, 0)
	if h.push(k, v, frame) {
		h.Counters.ResetsSent++
	}
}
