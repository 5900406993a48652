package gvguest

import (
	"fmt"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// guestMAC is the guest's hardware address.
const guestMAC = tcpip.LinkAddress("\x52\x54\x00\x12\x34\x56")

const nicID = 1

// drainTimeout is how long a shutdown waits for the device.
const drainTimeout = 2 * time.Second

// Config is the guest's system.
type Config struct {
	NIC NICConfig
	// The guest's addresses with their prefixes, and its routers.
	Addr4, Addr6       netip.Prefix
	Gateway4, Gateway6 netip.Addr
	// RcvBufBytes and SndBufBytes are the sizes of socket buffers, fixed; 0
	// leaves them to the stack.
	RcvBufBytes, SndBufBytes int
}

// Guest is a running system.
type Guest struct {
	NIC   *NIC
	Stack *stack.Stack
}

// New boots a guest whose device has the rings.
func New(rings *Rings, cfg Config) (*Guest, error) {
	nic, err := NewNIC(rings, cfg.NIC)
	if err != nil {
		return nil, err
	}
	g := &Guest{NIC: nic}
	g.Stack = stack.New(stack.Options{
		NetworkProtocols: []stack.NetworkProtocolFactory{
			arp.NewProtocol, ipv4.NewProtocol,
			ipv6.NewProtocolWithOptions(ipv6.Options{AutoGenLinkLocal: true}),
		},
		TransportProtocols: []stack.TransportProtocolFactory{
			tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6,
		},
	})
	if err := g.configure(cfg); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Guest) configure(cfg Config) error {
	if err := g.Stack.CreateNIC(nicID, ethernet.New(g.NIC)); err != nil {
		return fmt.Errorf("create interface: %s", err)
	}
	for _, a := range []struct {
		prefix  netip.Prefix
		gateway netip.Addr
	}{{cfg.Addr4, cfg.Gateway4}, {cfg.Addr6, cfg.Gateway6}} {
		if !a.prefix.IsValid() {
			continue
		}
		if err := g.AddAddress(a.prefix, a.gateway); err != nil {
			return err
		}
	}
	return g.tuneTCP(cfg)
}

// AddAddress gives the guest an address with its subnet, and a default router for
// the family if that is valid. The router may be outside the subnet.
func (g *Guest) AddAddress(prefix netip.Prefix, router netip.Addr) error {
	ip := prefix.Addr()
	proto := ipv4.ProtocolNumber
	if ip.Is6() {
		proto = ipv6.ProtocolNumber
	}
	addr := tcpip.ProtocolAddress{Protocol: proto, AddressWithPrefix: tcpip.AddressWithPrefix{
		Address: tcpip.AddrFromSlice(ip.AsSlice()), PrefixLen: prefix.Bits(),
	}}
	if err := g.Stack.AddProtocolAddress(nicID, addr, stack.AddressProperties{}); err != nil {
		return fmt.Errorf("add address %v: %s", prefix, err)
	}
	g.Stack.AddRoute(tcpip.Route{Destination: addr.AddressWithPrefix.Subnet(), NIC: nicID})
	if !router.IsValid() {
		return nil
	}
	all, err := tcpip.NewSubnet(tcpip.AddrFromSlice(make([]byte, ip.BitLen()/8)), tcpip.MaskFromBytes(make([]byte, ip.BitLen()/8)))
	if err != nil {
		return err
	}
	g.Stack.AddRoute(tcpip.Route{Destination: all, Gateway: tcpip.AddrFromSlice(router.AsSlice()), NIC: nicID})
	return nil
}

// tuneTCP makes the stack's TCP quick to repeat and to forget.
func (g *Guest) tuneTCP(cfg Config) error {
	sack := tcpip.TCPSACKEnabled(true)
	rto := tcpip.TCPMinRTOOption(50 * time.Millisecond)
	most := tcpip.TCPMaxRTOOption(2 * time.Second)
	timeWait := tcpip.TCPTimeWaitTimeoutOption(10 * time.Millisecond)
	opts := []tcpip.SettableTransportProtocolOption{&sack, &rto, &most, &timeWait}
	if n := cfg.RcvBufBytes; n != 0 {
		fixed := tcpip.TCPModerateReceiveBufferOption(false)
		opts = append(opts, &fixed, &tcpip.TCPReceiveBufferSizeRangeOption{Min: n, Default: n, Max: n})
	}
	if n := cfg.SndBufBytes; n != 0 {
		opts = append(opts, &tcpip.TCPSendBufferSizeRangeOption{Min: n, Default: n, Max: n})
	}
	for _, o := range opts {
		if err := g.Stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T: %s", o, err)
		}
	}
	return nil
}

// Close shuts the guest down: its connections are reset, and the power is cut
// when the device has taken the last frame.
func (g *Guest) Close() {
	g.Stack.Close()
	g.NIC.Drain(drainTimeout)
	g.Crash()
}

// Crash cuts the power: nothing is said to anyone.
func (g *Guest) Crash() {
	g.NIC.Halt()
	g.Stack.Destroy()
}
