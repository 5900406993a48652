package tcp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
)

// firstWindow is what SYN-ACK offers before the socket was asked: it fits the
// smallest send buffer that Linux gives a connected socket, and the field
// without scale.
const firstWindow = 0xffff

// windowShift is the scale of the windows that we offer, where the largest send
// buffer of a socket is maxBytes: enough to say that, and no more, so that small
// windows can be said as well. 14 is the most there is (RFC 7323 section 2.3).
func windowShift(maxBytes int) uint8 {
	shift := uint8(0)
	for shift < header.MaxWScale && 0xffff<<shift < maxBytes {
		shift++
	}
	return shift
}

// everything is all that a flow's socket is ever watched for.
const everything = poller.Readable | poller.Writable | poller.PeerEnded | poller.Urgent

// open begins a flow for the guest's SYN.
func (h *Handler) open(k *flowtable.Key, fr *link.Frame, t header.TCP) {
	host, why := h.cfg.Map.FromGuest(&fr.Packet)
	if why != addrmap.OK {
		h.Counters.Dropped++
		return
	}
	if h.flows.live >= h.cfg.MaxFlows {
		h.Counters.Limited++
		h.sendReset(k, t, 1)
		return
	}
	if len(h.pending) >= h.cfg.MaxConnecting && !h.giveUpConnect() {
		h.Counters.Limited++ // the guest will ask again
		return
	}
	fd, errno := h.startConnect(host, fr.Packet.DstPort)
	if errno != 0 && errno != hostsock.EINPROGRESS {
		h.refuse(k, fr, t, errno)
		return
	}
	i, f := h.add(k)
	if f == nil {
		hostsock.Close(fd)
		h.sendReset(k, t, 1)
		return
	}
	f.fd = int32(fd)
	h.nowConnecting(i, f)
	h.readSyn(f, t)
	if err := h.cfg.Poller.Add(fd, link.Token(h.cfg.FlowHandler, f.gen, i), everything); err != nil {
		h.Counters.Limited++
		h.release(i, f)
	}
}

// nowConnecting begins the time in which the host's connect of f is under way.
func (h *Handler) nowConnecting(i uint32, f *flow) {
	f.state = connecting
	f.listAt, f.rtoAtMs = uint32(len(h.pending)), h.now()
	h.pending = append(h.pending, i)
}

const (
	// longConnectMs is how long a connect has to be under way before it makes
	// room for another: longer than most answers take.
	longConnectMs = 1000
	// maxLooks is how many are looked at for one.
	maxLooks = 16
)

// giveUpConnect ends a connect that has been under way for long, so that
// destinations that never answer do not hold up others. A guest that still wants
// it sends its SYN again.
func (h *Handler) giveUpConnect() bool {
	for range min(maxLooks, len(h.pending)) {
		h.nextLook++
		i := h.pending[h.nextLook%len(h.pending)]
		if f := h.flows.at(i); h.now()-f.rtoAtMs >= longConnectMs {
			h.Counters.Limited++
			h.release(i, f)
			return true
		}
	}
	return false
}

// startConnect opens a socket and begins its connect to host:port. On success
// or EINPROGRESS the socket is open.
func (h *Handler) startConnect(host header.Addr, port uint16) (int, hostsock.Errno) {
	v6 := !host.Is4()
	fd, errno := hostsock.OpenStream(v6)
	if errno != 0 {
		return -1, errno
	}
	if !host.IsLoopback() {
		if errno = h.bindOutbound(fd, v6); errno != 0 {
			hostsock.Close(fd)
			return -1, errno
		}
	}
	errno = h.calls.Connect(fd, hostsock.Endpoint{Addr: host, Port: port}, v6)
	if errno != 0 && errno != hostsock.EINPROGRESS {
		hostsock.Close(fd)
		return -1, errno
	}
	return fd, errno
}

// bindOutbound sets where a connection to the outside comes from.
func (h *Handler) bindOutbound(fd int, v6 bool) hostsock.Errno {
	src, device := h.cfg.Outbound4, &h.cfg.Device4
	if v6 {
		src, device = h.cfg.Outbound6, &h.cfg.Device6
	}
	if device.Given() {
		if errno := hostsock.BindToDevice(fd, device); errno != 0 {
			return errno
		}
	}
	if src == (header.Addr{}) {
		return 0
	}
	return h.calls.BindAddress(fd, src, v6)
}

// readSyn takes over what the guest's SYN or SYN-ACK says, and where its stream
// begins.
func (h *Handler) readSyn(f *flow, t header.TCP) {
	var o header.TCPOptions
	t.ParseOptions(&o)
	h.useMSS(f, o.MSS)
	f.gotWScale = o.HasWScale
	f.sndShift, f.rcvShift = 0, 0
	if o.HasWScale {
		f.sndShift, f.rcvShift = o.WScale, h.windowShift
	}
	f.clear(sackOK)
	if o.SACKPermitted {
		f.set(sackOK)
	}
	f.sndWnd = uint32(t.Window()) // not scaled in a SYN
	f.maxWnd = f.sndWnd
	f.sndWl1 = t.Seq()
	f.rcvNxt = t.Seq() + 1
	f.hostTaken, f.lastAcked = f.rcvNxt, f.rcvNxt
	f.rcvEdge = f.rcvNxt + firstWindow
	f.rcvSpan = firstWindow
}

// startSending chooses where our stream to the guest begins, and counts the SYN
// as sent.
func (h *Handler) startSending(f *flow) {
	f.sndUna = h.firstSeq(&f.key)
	f.sndNxt, f.sndMax = f.sndUna+1, f.sndUna+1
	f.headSeq, f.peekSeq = f.sndNxt, f.sndNxt
	f.recover = f.sndUna
}

// connectEvent learns how the host's connect ended.
func (h *Handler) connectEvent(i uint32, f *flow, ready poller.Readiness) {
	if ready&(poller.Failed|poller.HungUp) != 0 {
		if errno := hostsock.TakeError(int(f.fd)); errno != 0 {
			h.connectFailed(i, f, errno)
			return
		}
	}
	if ready&poller.Writable == 0 {
		return
	}
	h.unlist(f)
	f.state = synReceived
	h.startSending(f)
	f.set(timing)
	f.timeSeq, f.timeAtMs = f.sndNxt, h.now()
	if ready&(poller.Readable|poller.PeerEnded) != 0 {
		f.set(hostReadable)
	}
	h.noteEnd(f, ready)
	h.sendSyn(f, header.TCPSyn|header.TCPAck)
	h.armRTO(i, f)
}

// connectFailed ends a flow whose connect failed, in the way that tells the
// guest what happened.
func (h *Handler) connectFailed(i uint32, f *flow, errno hostsock.Errno) {
	h.Counters.Refused++
	k, seq := f.key, f.rcvNxt
	h.release(i, f)
	h.tellConnectError(k, seq, errno)
}

// refuse answers a SYN for which no connect could be started.
func (h *Handler) refuse(k *flowtable.Key, fr *link.Frame, t header.TCP, errno hostsock.Errno) {
	switch errno {
	case hostsock.EMFILE, hostsock.ENFILE, hostsock.ENOBUFS, hostsock.ENOMEM, hostsock.EADDRNOTAVAIL, hostsock.EAGAIN:
		h.Counters.Limited++
	default:
		h.Counters.Refused++
	}
	h.tellConnectError(*k, t.Seq()+1, errno)
}

// tellConnectError tells the guest why the connection k, whose SYN ends before
// seq, failed: unreachable and prohibited by ICMP (RFC 1122 section 4.2.3.9),
// refused by RST. A timeout stays silent: the guest's own comes about then, and
// a RST would be a claim that something answered.
func (h *Handler) tellConnectError(k flowtable.Key, seq uint32, errno hostsock.Errno) {
	switch errno {
	case hostsock.ETIMEDOUT:
	case hostsock.EHOSTUNREACH:
		h.sendUnreachable(k, seq-1, header.ICMPCodeHost, header.ICMPv6CodeAddress)
	case hostsock.ENETUNREACH, hostsock.EINVAL, hostsock.EAFNOSUPPORT:
		// No route, one into a black hole, or a family that the host has not: RST
		// would say that there is a machine.
		h.sendUnreachable(k, seq-1, header.ICMPCodeNet, header.ICMPv6CodeNoRoute)
	case hostsock.EACCES, hostsock.EPERM:
		h.sendUnreachable(k, seq-1, header.ICMPCodeProhibited, header.ICMPv6CodeProhibited)
	default:
		var b [header.TCPLen]byte
		header.PutTCP(b[:], &header.TCPFields{Seq: seq}, 0)
		h.sendReset(&k, header.TCP(b[:]), 0)
	}
}

// sendUnreachable sends an ICMP destination-unreachable message about the SYN
// with sequence number seq (RFC 792, RFC 4443 section 3.1).
func (h *Handler) sendUnreachable(k flowtable.Key, seq uint32, code4, code6 uint8) {
	var quoted [header.IPv6Len + header.TCPLen]byte
	ip := header.IP{Src: k.Local, Dst: k.Remote, Proto: header.ProtoTCP, TTL: hopLimit, DF: true}
	n := header.PutIP(quoted[:], &ip, header.TCPLen)
	t := header.TCPFields{SrcPort: k.LocalPort, DstPort: k.RemotePort, Seq: seq, Flags: header.TCPSyn}
	n += header.PutTCP(quoted[n:], &t, 0)

	from, typ, code, proto := h.cfg.Link.Gateway4, uint8(header.ICMPUnreachable), code4, uint8(header.ProtoICMP)
	if !k.Local.Is4() {
		from, typ, code, proto = h.cfg.Link.OurLinkLocal, header.ICMPv6Unreachable, code6, header.ProtoICMPv6
	}
	if from == (header.Addr{}) {
		from = k.Remote
	}
	var frame [header.EthLen + header.IPv6Len + header.ICMPLen + len(quoted)]byte
	err := header.IP{Src: from, Dst: k.Local, Proto: proto, TTL: hopLimit}
	l3 := header.PutEth(frame[:], h.cfg.Link.GuestMAC, h.cfg.Link.OurMAC, err.EtherType())
	l4 := l3 + header.PutIP(frame[l3:], &err, header.ICMPLen+n)
	end := l4 + header.PutICMP(frame[l4:], typ, code, 0)
	end += copy(frame[end:], quoted[:n])
	header.SetChecksum(frame[l4:end], &err.Src, &err.Dst, proto)
	h.cfg.Queue.Push(header.Vnet{}, frame[:end])
}
