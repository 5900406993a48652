package netstack

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// intake is the scratch in which frames from the guest are looked at.
type intake struct {
	vecs  []iov.Vec // of all frames of a batch
	head  [header.VnetLen + header.MaxHeaders]byte
	whole []byte // a whole frame, for the services
	frame link.Frame
	// reassembled says that the frame at hand was a datagram in fragments when it
	// came first; another worker had its flow then.
	reassembled bool
}

// maxServiceFrame bounds the frames that ARP, NDP and DHCP read: more than any
// client sends.
const maxServiceFrame = 4096

func (in *intake) init() {
	in.vecs = make([]iov.Vec, 0, 2048)
	in.whole = make([]byte, maxServiceFrame)
}

// The ports of DHCP (RFC 2131 section 4.1).
const (
	dhcpServerPort  = 67
	dhcpClientPort  = 68
	dhcp6ServerPort = 547 // RFC 8415 section 7.2
)

// dhcp6Servers is All_DHCP_Relay_Agents_and_Servers (RFC 8415 section 7.1).
var dhcp6Servers = header.Addr{0: 0xff, 1: 0x02, 13: 1, 15: 2}

// frameFromGuest handles one frame; vecs is all of it, vnet header in front.
func (w *Worker) frameFromGuest(vecs []iov.Vec) {
	w.counters.FramesFromGuest++
	total := iov.Len(vecs)
	w.counters.BytesFromGuest += uint64(total)
	w.tap.FrameFromGuest(vecs, total)
	w.takeFrame(vecs, total)
}

// takeFrame handles a frame of total bytes that was counted already.
func (w *Worker) takeFrame(vecs []iov.Vec, total int) {
	if total < header.VnetLen+header.EthLen {
		w.counters.Dropped[header.TooShort]++
		return
	}
	fr := &w.in.frame
	n := iov.CopyOut(w.in.head[:], vecs, 0)
	fr.Vnet = header.ParseVnet(w.in.head[:header.VnetLen])
	fr.Head = w.in.head[header.VnetLen:n]
	fr.Vecs, fr.Bytes = vecs, total-header.VnetLen
	why := fr.Vnet.CheckFromGuest(w.link.Features, fr.Bytes)
	if why == header.OK {
		why = header.Parse(&fr.Packet, fr.Head, fr.Bytes)
	}
	if why == header.OK {
		why = fr.Vnet.Matches(&fr.Packet)
	}
	if why != header.OK {
		w.counters.Dropped[why]++
		return
	}
	p := &fr.Packet
	p.Reassembled = w.in.reassembled
	w.learnGuest(p)
	if !p.IsIP() {
		w.otherFrame(fr)
		return
	}
	if p.DstMAC != w.link.OurMAC && !p.DstMAC.IsMulticast() {
		w.counters.NotForUs++ // between stations of the guest's own side
		return
	}
	w.learnAddr(p)
	if p.V6 && w.services.noV6 || !p.V6 && w.services.noV4 {
		w.counters.NotServed++
		return
	}
	w.packet(fr)
}

// packet hands an IP packet to its protocol.
func (w *Worker) packet(fr *link.Frame) {
	p := &fr.Packet
	if p.IsFragment() {
		w.protos.fragment(w, fr)
		return
	}
	switch {
	case p.Proto == header.ProtoTCP && w.protos.tcp != nil:
		w.protos.tcp.FromGuest(fr)
	case p.Proto == header.ProtoUDP && p.DstPort == dhcpServerPort && p.SrcPort == dhcpClientPort && !p.V6:
		w.serve(fr, w.services.dhcp)
	case p.Proto == header.ProtoUDP && p.DstPort == dhcp6ServerPort && w.forDHCP6(p):
		w.serve(fr, w.services.dhcp6)
		w.services.leased(&w.link)
	case p.Proto == header.ProtoUDP:
		w.protos.udpFromGuest(w, fr)
	case p.Proto == header.ProtoICMPv6 && isNeighbourDiscovery(fr):
		w.serve(fr, w.services.ndp)
		w.services.learnProbe(&w.link)
	case p.Proto == header.ProtoICMP || p.Proto == header.ProtoICMPv6:
		w.protos.icmpFromGuest(w, fr)
	default:
		w.counters.NotServed++
	}
}

// forDHCP6 reports whether a DHCPv6 message is for the server on this link, and
// not one of a relay in the guest to a server elsewhere.
func (w *Worker) forDHCP6(p *header.Packet) bool {
	return p.V6 && (p.Dst == dhcp6Servers || p.Dst == w.link.OurLinkLocal)
}

// isNeighbourDiscovery tells the messages of RFC 4861 from other ICMPv6.
func isNeighbourDiscovery(fr *link.Frame) bool {
	t := fr.Head[fr.Packet.L4]
	return t >= 133 && t <= 137
}

// otherFrame handles what is not IP: ARP, or nothing that we know.
func (w *Worker) otherFrame(fr *link.Frame) {
	if fr.Packet.EtherType != header.EtherTypeARP || w.services.noV4 {
		w.counters.NotServed++
		return
	}
	w.serve(fr, w.services.arp)
	if _, addr, ok := w.services.arpGuest(); ok && addr != (header.Addr{}) && !addr.IsLinkLocal() {
		w.link.Guest4 = addr
	}
}

// responder is a service that answers frames with frames.
type responder interface {
	Handle(dst, frame []byte) (reply []byte, ok bool)
}

// serve lets a service see a whole frame, copied out of guest memory, and sends
// its answer.
func (w *Worker) serve(fr *link.Frame, s responder) {
	if s == nil || fr.Bytes > maxServiceFrame {
		w.counters.NotServed++
		return
	}
	n := iov.CopyOut(w.in.whole[:fr.Bytes], fr.Vecs, header.VnetLen)
	frame := w.in.whole[:n]
	copy(frame, fr.Head) // the guest may have changed them meanwhile
	if fr.Vnet.Flags&header.VnetNeedsCsum != 0 {
		header.Complete(frame, int(fr.Vnet.CsumStart), int(fr.Vnet.CsumOffset))
	}
	reply, ok := s.Handle(w.services.scratch[:0], frame)
	if ok {
		w.queue.Push(header.Vnet{}, reply)
	}
}
