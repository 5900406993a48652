package netstack

import (
	"fmt"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/tcp"
	"github.com/vhost-net-go/vhost-net-go/netstack/udp"
)

// listen opens the sockets of a forwarding rule and gives them to its protocol.
func (p *protocols) listen(r forward.Rule) error {
	for port := int(r.FirstPort); port <= int(r.LastPort); port++ {
		if err := p.listenPort(r, uint16(port)); err != nil {
			return fmt.Errorf("forward %v: %w", r, err)
		}
	}
	return nil
}

// opener opens a listening socket: hostsock.ListenStream or ListenDatagram.
type opener func(e hostsock.Endpoint, v6, dual bool, device string) (int, error)

func (p *protocols) listenPort(r forward.Rule, port uint16) error {
	target := header.Addr{}
	if r.TargetAddr.IsValid() {
		target = header.AddrFromNetip(r.TargetAddr)
	}
	switch {
	case r.Proto == forward.TCP && p.tcp != nil:
		s, err := open(hostsock.ListenStream, r, port)
		if err != nil {
			return err
		}
		return closeOnError(s.fd, p.tcp.Listen(tcp.Listener{FD: s.fd, Target: target, Port: r.TargetPort(port)}))
	case r.Proto == forward.UDP && p.udp != nil:
		s, err := open(hostsock.ListenDatagram, r, port)
		if err != nil {
			return err
		}
		return closeOnError(s.fd, p.udp.Listen(udp.Listener{
			FD: s.fd, V6: s.v6, Dual: s.dual, Any: !r.ListenAddr.IsValid() || r.ListenAddr.IsUnspecified(),
			Target: target, Port: r.TargetPort(port),
		}))
	}
	return nil // the protocol is switched off
}

// socket is a listening socket and how it was bound.
type socket struct {
	fd       int
	v6, dual bool
}

// open opens the socket for a port of a rule. A rule without an address listens
// on both families with one socket, or on IPv4 where the host has no IPv6.
func open(listen opener, r forward.Rule, port uint16) (socket, error) {
	a := r.ListenAddr
	if !a.IsValid() {
		any6 := hostsock.Endpoint{Port: port}
		fd, err := listen(any6, true, true, r.Interface)
		if err == nil {
			return socket{fd: fd, v6: true, dual: true}, nil
		}
		a = netip.IPv4Unspecified()
		if fd, err4 := listen(hostsock.Endpoint{Addr: header.AddrFromNetip(a), Port: port}, false, false, r.Interface); err4 == nil {
			return socket{fd: fd}, nil
		}
		return socket{}, err
	}
	fd, err := listen(hostsock.Endpoint{Addr: header.AddrFromNetip(a), Port: port}, a.Is6(), false, r.Interface)
	return socket{fd: fd, v6: a.Is6()}, err
}

func closeOnError(fd int, err error) error {
	if err != nil {
		hostsock.Close(fd)
	}
	return err
}
