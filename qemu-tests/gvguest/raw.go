package gvguest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// MAC is the guest's hardware address.
func MAC() [6]byte { return [6]byte([]byte(guestMAC)) }

// SendRaw sends an IP packet past the stack, to a hardware address.
func (g *Guest) SendRaw(to [6]byte, packet []byte) error {
	proto := ipv4.ProtocolNumber
	if packet[0]>>4 == 6 {
		proto = ipv6.ProtocolNumber
	}
	err := g.Stack.WritePacketToRemote(nicID, tcpip.LinkAddress(to[:]), proto, buffer.MakeWithData(packet))
	if err != nil {
		return fmt.Errorf("send raw: %s", err)
	}
	return nil
}

// Ping sends one echo request and waits for its answer, with the same content.
func (g *Guest) Ping(ctx context.Context, addr netip.Addr) error {
	full, proto := fullAddr(netip.AddrPortFrom(addr, 0))
	transport, request, answer := icmp.ProtocolNumber4, byte(8), byte(0)
	if addr.Is6() {
		transport, request, answer = icmp.ProtocolNumber6, 128, 129
	}
	wq := new(waiter.Queue)
	ep, err := g.Stack.NewEndpoint(transport, proto, wq)
	if err != nil {
		return fmt.Errorf("ping %v: %s", addr, err)
	}
	defer ep.Close()
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	if err := ep.Connect(full); err != nil {
		return fmt.Errorf("ping %v: %s", addr, err)
	}
	payload := []byte("are you there?")
	message := append([]byte{request, 0, 0, 0, 0, 0, 0, 1}, payload...)
	var out bytes.Buffer
	for try := time.NewTicker(300 * time.Millisecond); ; {
		// The first one may wait for the router's hardware address.
		if _, err := ep.Write(bytes.NewReader(message), tcpip.WriteOptions{}); err != nil {
			return fmt.Errorf("ping %v: %s", addr, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ping %v: %w", addr, ctx.Err())
		case <-try.C:
			continue
		case <-ready:
		}
		if _, err := ep.Read(&out, tcpip.ReadOptions{}); err != nil {
			return fmt.Errorf("ping %v: %s", addr, err)
		}
		if b := out.Bytes(); len(b) < 8 || b[0] != answer || !bytes.Equal(b[8:], payload) {
			return errors.New("the answer is not to what was asked")
		}
		return nil
	}
}
