package netstack

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/tcp"
	"github.com/vhost-net-go/vhost-net-go/netstack/udp"
)

// InheritedSocket is a socket for a forwarded port that somebody else opened,
// perhaps with more rights than ours.
type InheritedSocket struct {
	FD int
	hostsock.Inherited
}

// Serves reports whether the socket is the one that rule r wants for port.
func (s InheritedSocket) Serves(r forward.Rule, port uint16) bool {
	local := s.Local.Addr()
	return s.Stream == (r.Proto == forward.TCP) && s.Local.Port() == port && s.Device == r.Interface &&
		(local == r.ListenAddr || local.IsUnspecified() && (!r.ListenAddr.IsValid() || s.Dual && r.ListenAddr.IsUnspecified()))
}

// Forward is a forwarding rule as it was met: where the host chose the port, the
// rule has it.
type Forward struct {
	forward.Rule
	Open int // how many ports of the host it has
}

// listenAll meets the rules: first those that name their ports, then those that
// take what is left.
func (p *protocols) listenAll(cfg Config) error {
	for _, bestEffort := range []bool{false, true} {
		for _, r := range cfg.Forwards {
			if r.BestEffort != bestEffort {
				continue
			}
			if err := p.listen(&cfg, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// listen opens the sockets of a forwarding rule and gives them to its protocol.
// An error is a *forward.OpenError.
func (p *protocols) listen(cfg *Config, r forward.Rule) error {
	if (r.Proto == forward.TCP && p.tcp == nil) || (r.Proto == forward.UDP && p.udp == nil) {
		return nil // the protocol is switched off
	}
	f := Forward{Rule: r}
	var last error
	for port := range r.HostPorts() {
		got, err := p.listenPort(cfg, r, port)
		switch {
		case err == nil:
			f.Open++
			if r.AnyPort() {
				f.FirstPort, f.LastPort = got, got
			}
		case !r.BestEffort || outOfSockets(err):
			return &forward.OpenError{Rule: r, Port: port, Err: err}
		default:
			last = err
		}
	}
	if f.Open == 0 && last != nil {
		return &forward.OpenError{Rule: r, Err: last}
	}
	p.forwards = append(p.forwards, f)
	return nil
}

// outOfSockets tells a limit of ours from a port that is taken.
func outOfSockets(err error) bool {
	return errors.Is(err, hostsock.EMFILE) || errors.Is(err, hostsock.ENFILE) || errors.Is(err, hostsock.ENOBUFS) || errors.Is(err, hostsock.ENOMEM)
}

// opener opens a listening socket: hostsock.ListenStream or ListenDatagram.
type opener func(hostsock.Endpoint, hostsock.ListenOptions) (int, error)

// listenPort opens the socket for one port and returns the port that it has.
func (p *protocols) listenPort(cfg *Config, r forward.Rule, port uint16) (uint16, error) {
	target := header.Addr{}
	if r.TargetAddr.IsValid() {
		target = header.AddrFromNetip(r.TargetAddr)
	}
	var open opener = hostsock.ListenStream
	if r.Proto == forward.UDP {
		open = hostsock.ListenDatagram
	}
	s, err := cfg.socketFor(open, r, port)
	if err != nil {
		return 0, err
	}
	if r.Proto == forward.TCP {
		err = p.tcp.Listen(tcp.Listener{FD: s.fd, Target: target, Port: r.TargetPort(port)})
	} else {
		err = p.udp.Listen(udp.Listener{
			FD: s.fd, V6: s.v6, Dual: s.dual, Any: !r.ListenAddr.IsValid() || r.ListenAddr.IsUnspecified(),
			Target: target, Port: r.TargetPort(port),
		})
	}
	if err != nil {
		hostsock.Close(s.fd)
		return 0, err
	}
	if port == 0 {
		return hostsock.LocalPort(s.fd)
	}
	return port, nil
}

// socket is a listening socket and how it was bound.
type socket struct {
	fd       int
	v6, dual bool
}

// socketFor takes the socket for a port of a rule from those that were
// inherited, or opens one.
func (c *Config) socketFor(open opener, r forward.Rule, port uint16) (socket, error) {
	i := slices.IndexFunc(c.Sockets, func(s InheritedSocket) bool { return s.Serves(r, port) })
	if i < 0 {
		return openSocket(open, r, port, c.FreeBind)
	}
	s := c.Sockets[i]
	return socket{fd: s.FD, v6: s.V6, dual: s.Dual}, hostsock.Adopt(s.FD, s.Inherited)
}

// openSocket opens the socket for a port of a rule. A rule without an address
// listens on both families with one socket, or on IPv4 where the host has no
// IPv6.
func openSocket(open opener, r forward.Rule, port uint16, freeBind bool) (socket, error) {
	o := hostsock.ListenOptions{V6: true, Dual: true, Device: r.Interface, FreeBind: freeBind}
	e := hostsock.Endpoint{Port: port}
	if !r.ListenAddr.IsValid() {
		fd, err := open(e, o)
		if !errors.Is(err, hostsock.EAFNOSUPPORT) {
			return socket{fd: fd, v6: true, dual: true}, err
		}
		r.ListenAddr = netip.IPv4Unspecified()
	}
	o.V6, o.Dual = r.ListenAddr.Is6(), false
	e.Addr = header.AddrFromNetip(r.ListenAddr)
	fd, err := open(e, o)
	return socket{fd: fd, v6: o.V6}, err
}
