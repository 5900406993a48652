package gvguest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// Conn is a TCP connection of the guest.
type Conn struct {
	*gonet.TCPConn
	ep tcpip.Endpoint
}

// Abort closes the connection with a reset.
func (c *Conn) Abort() error {
	c.ep.SocketOptions().SetLinger(tcpip.LingerOption{Enabled: true, Timeout: 0})
	return c.Close()
}

// IsReset reports whether err, of reading or writing, says that the peer has
// reset a connection of the guest. Where the peer had ended its direction before,
// the stack only says that there is nobody to write to.
func IsReset(err error) bool {
	return hasText(err, (&tcpip.ErrConnectionReset{}).String()) || hasText(err, (&tcpip.ErrClosedForSend{}).String())
}

// IsRefused reports whether err says that a connection of the guest was refused.
func IsRefused(err error) bool { return hasText(err, (&tcpip.ErrConnectionRefused{}).String()) }

// hasText looks for the text of one of the stack's errors, which lose their type
// on their way through gonet.
func hasText(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

func fullAddr(a netip.AddrPort) (tcpip.FullAddress, tcpip.NetworkProtocolNumber) {
	full := tcpip.FullAddress{NIC: nicID, Port: a.Port()}
	if a.Addr().IsValid() {
		full.Addr = tcpip.AddrFromSlice(a.Addr().AsSlice())
	}
	if a.Addr().Is6() {
		return full, ipv6.ProtocolNumber
	}
	return full, ipv4.ProtocolNumber
}

// Dial connects to addr. from is the local port; 0: any.
func (g *Guest) Dial(ctx context.Context, addr netip.AddrPort, from uint16) (*Conn, error) {
	full, proto := fullAddr(addr)
	wq := new(waiter.Queue)
	ep, err := g.Stack.NewEndpoint(tcp.ProtocolNumber, proto, wq)
	if err != nil {
		return nil, fmt.Errorf("dial %v: %s", addr, err)
	}
	if from != 0 {
		ep.SocketOptions().SetReuseAddress(true)
		if err := ep.Bind(tcpip.FullAddress{NIC: nicID, Port: from}); err != nil {
			ep.Close()
			return nil, fmt.Errorf("bind port %d: %s", from, err)
		}
	}
	entry, ready := waiter.NewChannelEntry(waiter.WritableEvents)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	err = ep.Connect(full)
	if _, started := err.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ctx.Done():
			ep.Close()
			return nil, fmt.Errorf("dial %v: %w", addr, ctx.Err())
		case <-ready:
		}
		err = ep.LastError()
	}
	if err != nil {
		ep.Close()
		return nil, fmt.Errorf("dial %v: %s", addr, err)
	}
	return &Conn{gonet.NewTCPConn(wq, ep), ep}, nil
}

// Listener is a listening TCP socket of the guest.
type Listener struct {
	ep tcpip.Endpoint
	wq waiter.Queue
}

// Listen listens on a port of all the guest's addresses of one family.
func (g *Guest) Listen(v6 bool, port uint16) (*Listener, error) {
	proto := ipv4.ProtocolNumber
	if v6 {
		proto = ipv6.ProtocolNumber
	}
	l := new(Listener)
	var err tcpip.Error
	if l.ep, err = g.Stack.NewEndpoint(tcp.ProtocolNumber, proto, &l.wq); err != nil {
		return nil, fmt.Errorf("listen: %s", err)
	}
	l.ep.SocketOptions().SetReuseAddress(true)
	l.ep.SocketOptions().SetV6Only(v6)
	if err = l.ep.Bind(tcpip.FullAddress{NIC: nicID, Port: port}); err == nil {
		err = l.ep.Listen(16384)
	}
	if err != nil {
		l.ep.Close()
		return nil, fmt.Errorf("listen on port %d: %s", port, err)
	}
	return l, nil
}

// Accept waits for a connection.
func (l *Listener) Accept() (*Conn, error) {
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents | waiter.EventHUp | waiter.EventErr)
	l.wq.EventRegister(&entry)
	defer l.wq.EventUnregister(&entry)
	for {
		ep, wq, err := l.ep.Accept(nil)
		switch err.(type) {
		case nil:
			return &Conn{gonet.NewTCPConn(wq, ep), ep}, nil
		case *tcpip.ErrWouldBlock:
			<-ready
		default:
			return nil, errors.New("accept: " + err.String())
		}
	}
}

// Close ends the listener and any Accept.
func (l *Listener) Close() { l.ep.Close() }

// DialUDP returns a datagram socket connected to addr.
func (g *Guest) DialUDP(addr netip.AddrPort) (net.Conn, error) {
	full, proto := fullAddr(addr)
	c, err := gonet.DialUDP(g.Stack, nil, &full, proto)
	if err != nil {
		return nil, fmt.Errorf("dial UDP %v: %w", addr, err)
	}
	return c, nil
}

// SetTimeout ends all reading and writing after d.
func (c *Conn) SetTimeout(d time.Duration) { _ = c.SetDeadline(time.Now().Add(d)) }

// IsPortBusy reports whether err says that an older connection of the guest has
// the local port still.
func IsPortBusy(err error) bool {
	return hasText(err, (&tcpip.ErrPortInUse{}).String()) || hasText(err, (&tcpip.ErrConnectionAborted{}).String())
}
