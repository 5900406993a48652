package netstack

import (
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/netstack/tcp"
)

// protocols are the handlers of a worker; those that are switched off are nil.
type protocols struct {
	tcp *tcp.Handler
}

func (p *protocols) init(cfg Config, w *Worker) error {
	if !cfg.NoTCP {
		p.tcp = tcp.New(tcp.Config{
			Link: &w.link, Queue: w.queue, Poller: w.poll, Map: w.amap,
			FlowHandler: onTCP, ListenHandler: onTCPListen,
			Outbound4: header.AddrFromNetip(cfg.Outbound4), Outbound6: header.AddrFromNetip(cfg.Outbound6),
		})
	}
	for _, r := range cfg.Forwards {
		if err := p.listen(r); err != nil {
			return err
		}
	}
	return nil
}

// listen opens the sockets of a forwarding rule.
func (p *protocols) listen(r forward.Rule) error {
	for port := int(r.FirstPort); port <= int(r.LastPort); port++ {
		var err error
		switch {
		case r.Proto == forward.TCP && p.tcp != nil:
			err = p.listenTCP(r, uint16(port))
		}
		if err != nil {
			return fmt.Errorf("forward %v: %w", r, err)
		}
	}
	return nil
}

func (p *protocols) listenTCP(r forward.Rule, port uint16) error {
	e := hostsock.Endpoint{Addr: header.AddrFromNetip(r.ListenAddr), Port: port}
	v6 := !r.ListenAddr.IsValid() || r.ListenAddr.Is6()
	fd, err := hostsock.ListenStream(e, v6, !r.ListenAddr.IsValid(), r.Interface)
	if err != nil && !r.ListenAddr.IsValid() {
		// A host without IPv6 has no dual-stack socket.
		any4 := hostsock.Endpoint{Addr: header.AddrFromNetip(netip.IPv4Unspecified()), Port: port}
		if fd4, err4 := hostsock.ListenStream(any4, false, false, r.Interface); err4 == nil {
			fd, err = fd4, nil
		}
	}
	if err != nil {
		return err
	}
	l := tcp.Listener{FD: fd, Port: r.TargetPort(port)}
	if r.TargetAddr.IsValid() {
		l.Target = header.AddrFromNetip(r.TargetAddr)
	}
	if err := p.tcp.Listen(l); err != nil {
		hostsock.Close(fd)
		return err
	}
	return nil
}

func (p *protocols) event(h uint8, token uint64, ready poller.Readiness) {
	switch h {
	case onTCP:
		p.tcp.Event(token, ready)
	case onTCPListen:
		p.tcp.ListenEvent(token)
	}
}

func (p *protocols) endBatch() {
	if p.tcp != nil {
		p.tcp.EndBatch()
	}
}

func (p *protocols) run() (more bool) {
	if p.tcp != nil {
		more = p.tcp.Run()
	}
	return more
}

func (p *protocols) refilled() {
	if p.tcp != nil {
		p.tcp.Refilled()
	}
}

func (p *protocols) guestAppeared() {
	if p.tcp != nil {
		p.tcp.GuestAppeared()
	}
}

func (p *protocols) fault() {
	if p.tcp != nil {
		p.tcp.Fault()
	}
}

func (p *protocols) nextDeadlineMs() int64 {
	next := int64(-1)
	if p.tcp != nil {
		next = p.tcp.NextDeadlineMs()
	}
	return next
}

func (p *protocols) advance(nowMs int64) {
	if p.tcp != nil {
		if d := p.tcp.NextDeadlineMs(); d >= 0 && d <= nowMs {
			p.tcp.Advance()
		}
	}
}

func (p *protocols) close() {
	if p.tcp != nil {
		p.tcp.Close()
	}
}

func (p *protocols) fragment(w *Worker, fr *link.Frame)      { w.counters.NotServed++ }
func (p *protocols) udpFromGuest(w *Worker, fr *link.Frame)  { w.counters.NotServed++ }
func (p *protocols) icmpFromGuest(w *Worker, fr *link.Frame) { w.counters.NotServed++ }
