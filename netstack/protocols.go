package netstack

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/icmp"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/netstack/reassembly"
	"github.com/vhost-net-go/vhost-net-go/netstack/tcp"
	"github.com/vhost-net-go/vhost-net-go/netstack/udp"
)

// handler is what a worker needs of each of its protocols; package link has the
// contract.
type handler interface {
	EndBatch()
	Refilled()
	Run() (more bool)
	NextDeadlineMs() int64
	Advance()
	Fault()
	Close()
}

// protocols are the handlers of a worker; those that are switched off are nil.
type protocols struct {
	tcp  *tcp.Handler
	udp  *udp.Handler
	icmp *icmp.Handler
	all  []handler // those that there are

	fragments *reassembly.Reassembler
	forwards  []Forward
}

func (p *protocols) init(cfg Config, host hostFacts, w *Worker) error {
	out4, out6 := header.AddrFromNetip(cfg.Outbound4), header.AddrFromNetip(cfg.Outbound6)
	dev4, dev6 := hostsock.DeviceNamed(cfg.OutboundIf4), hostsock.DeviceNamed(cfg.OutboundIf6)
	p.fragments = reassembly.New(0)
	if !cfg.NoTCP {
		p.tcp = tcp.New(tcp.Config{
			Link: &w.link, Queue: w.queue, Poller: w.poll, Map: w.amap,
			FlowHandler: onTCP, ListenHandler: onTCPListen,
			Outbound4: out4, Outbound6: out6, Device4: dev4, Device6: dev6, Descriptors: host.descriptors,
			MaxSendBufferBytes: host.maxSendBufferBytes, NoPeekOffset: !host.hasPeekOffset,
			Shrunk:        cfg.Shrunk,
			MaxFrameBytes: cfg.MaxFrameBytes,
		})
		p.all = append(p.all, p.tcp)
	}
	if !cfg.NoUDP {
		p.udp = udp.New(udp.Config{
			Link: &w.link, Queue: w.queue, Poller: w.poll, Map: w.amap,
			FlowHandler: onUDP, ListenHandler: onUDPListen,
			Outbound4: out4, Outbound6: out6, Device4: dev4, Device6: dev6, Descriptors: host.descriptors,
		})
		p.all = append(p.all, p.udp)
	}
	if !cfg.NoICMP {
		p.icmp = icmp.New(icmp.Config{
			Link: &w.link, Queue: w.queue, Poller: w.poll, Map: w.amap, FlowHandler: onPing,
			Outbound4: out4, Outbound6: out6, Device4: dev4, Device6: dev6, OwnGateway: cfg.IPv4.OwnGateway,
			Forbidden: func(errno hostsock.Errno) {
				if cfg.PingForbidden != nil {
					cfg.PingForbidden(errno)
				}
			},
		})
		p.all = append(p.all, p.icmp)
	}
	return p.listenAll(cfg)
}

// event hands an event to the handler whose number its token carries.
func (p *protocols) event(h uint8, token uint64, ready poller.Readiness) {
	switch h {
	case onTCP:
		p.tcp.Event(token, ready)
	case onTCPListen:
		p.tcp.ListenEvent(token)
	case onUDP:
		p.udp.Event(token, ready)
	case onUDPListen:
		p.udp.ListenEvent(token, ready)
	case onPing:
		p.icmp.Event(token, ready)
	}
}

func (p *protocols) endBatch() {
	for _, h := range p.all {
		h.EndBatch()
	}
	p.fragments.EndBatch()
}

func (p *protocols) run() (more bool) {
	for _, h := range p.all {
		more = h.Run() || more
	}
	return more
}

func (p *protocols) refilled() {
	for _, h := range p.all {
		h.Refilled()
	}
}

func (p *protocols) guestAppeared() {
	if p.tcp != nil {
		p.tcp.GuestAppeared()
	}
}

// eachFlow visits the flows that others may ask for.
func (p *protocols) eachFlow(visit func(k flowtable.Key, bound bool)) {
	if p.tcp != nil {
		p.tcp.Keys(func(k flowtable.Key) { visit(k, false) })
	}
	if p.udp != nil {
		p.udp.Keys(visit)
	}
}

// share makes the protocols those of one of n workers.
func (p *protocols) share(n int) {
	if p.tcp != nil {
		p.tcp.Share(n)
	}
	if p.udp != nil {
		p.udp.Share(n)
	}
}

func (p *protocols) forgetGuest() {
	if p.tcp != nil {
		p.tcp.ForgetGuest()
	}
}

func (p *protocols) fault() {
	for _, h := range p.all {
		h.Fault()
	}
}

func (p *protocols) nextDeadlineMs() int64 {
	next := p.fragments.NextDeadlineMs()
	for _, h := range p.all {
		if d := h.NextDeadlineMs(); d >= 0 && (next < 0 || d < next) {
			next = d
		}
	}
	return next
}

func (p *protocols) advance(nowMs int64) {
	for _, h := range p.all {
		if d := h.NextDeadlineMs(); d >= 0 && d <= nowMs {
			h.Advance()
		}
	}
	if d := p.fragments.NextDeadlineMs(); d >= 0 && d <= nowMs {
		p.fragments.Advance(nowMs)
	}
}

func (p *protocols) close() {
	for _, h := range p.all {
		h.Close()
	}
}

// fragment adds a fragment to its datagram, and handles that when it is whole.
func (p *protocols) fragment(w *Worker, fr *link.Frame) {
	if whole := p.fragments.Add(fr, w.link.NowMs); whole != nil {
		w.packet(whole)
	}
}

func (p *protocols) udpFromGuest(w *Worker, fr *link.Frame) {
	if p.udp == nil {
		w.counters.NotServed++
		return
	}
	p.udp.FromGuest(fr)
}

func (p *protocols) icmpFromGuest(w *Worker, fr *link.Frame) {
	if p.icmp == nil {
		w.counters.NotServed++
		return
	}
	p.icmp.FromGuest(fr)
}
