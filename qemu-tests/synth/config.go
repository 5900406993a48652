package synth

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
)

// Feature bits of virtio that concern rings (virtio 1.2, section 6).
const (
	featureIndirectDesc = 1 << 28
	featureEventIdx     = 1 << 29
	featureVersion1     = 1 << 32
)

// AllFeatures are the virtio features that a Guest can use.
const AllFeatures = featureVersion1 | featureEventIdx | featureIndirectDesc | header.FeatureMrgRxBuf |
	header.FeatureCsum | header.FeatureGuestCsum | header.FeatureHostTSO4 | header.FeatureGuestTSO4

// Config describes a guest. The zero value of each field but Handler has a
// default.
type Config struct {
	// MTU of the guest's interface in bytes, 576…65520 (default 1500).
	MTU int
	// Addr is the guest's IPv4 address, Gateway that of its router (defaults
	// 10.77.0.1 and 10.77.0.2).
	Addr, Gateway netip.Addr
	MAC           [6]byte
	// Features are those to take if offered (default AllFeatures). VERSION_1
	// and MRG_RXBUF are needed.
	Features uint64
	// RingSize is the number of descriptors of each ring (default 256, as
	// QEMU's), RxBufBytes the size of each receive buffer (default 4096).
	RingSize   int
	RxBufBytes int
	// WindowBytes is the receive window of each connection (default 4 MiB),
	// constant since everything is consumed at once.
	WindowBytes int
	// Conns is the number of connections that may exist at a time (default
	// 1024).
	Conns int
	// Patience is how long a connection waits for an acknowledgement before it
	// sends again (default 200 ms; a SYN waits five times that). A backend
	// that has very many of them to serve needs more.
	Patience time.Duration
	// Spin is how long Run looks at the rings, with calls off, before it
	// sleeps.
	Spin time.Duration
	// TxCalls makes the guest ask for a call when transmitted frames come
	// back, as Linux' driver does by default (napi_tx); without it, it asks
	// only when it waits for room, as Linux does with napi_tx=0.
	TxCalls bool
	// Style is the frontend to be imitated.
	Style vutest.Style
	// Handler hears of connections; required.
	Handler Handler
	// Datagrams hears of UDP; without it, received datagrams are counted only.
	Datagrams DatagramHandler
}

// Handler is told what happens to connections.
type Handler interface {
	// Event is called at most once per connection and received frame. c is
	// valid until an event with Closed or Reset has been handled.
	Event(c *Conn, what Event)
}

// Event is a set of things that happened to a connection.
type Event uint8

// The events.
const (
	Opened    Event = 1 << iota // the handshake is complete
	Received                    // c.Received grew
	Acked                       // everything given to Send is acknowledged
	PeerEnded                   // the other side has sent its FIN
	Closed                      // both directions have ended, c is gone
	Reset                       // the other side has aborted or refused, c is gone
)

// DatagramHandler is told of UDP datagrams.
type DatagramHandler interface {
	// Datagram is called for each datagram, with the length of its payload.
	Datagram(from netip.AddrPort, localPort uint16, bytes int)
}

func (c *Config) fill() error {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.MTU, 1500)
	def(&c.RingSize, 256)
	def(&c.RxBufBytes, 4096)
	def(&c.WindowBytes, 4<<20)
	def(&c.Conns, 1024)
	if c.Patience == 0 {
		c.Patience = 2 * lookEvery
	}
	if c.Features == 0 {
		c.Features = AllFeatures
	}
	if !c.Addr.IsValid() {
		c.Addr = netip.AddrFrom4([4]byte{10, 77, 0, 1})
	}
	if !c.Gateway.IsValid() {
		c.Gateway = netip.AddrFrom4([4]byte{10, 77, 0, 2})
	}
	if c.MAC == [6]byte{} {
		c.MAC = [6]byte{0x52, 0x54, 0, 0x5e, 0, 1}
	}
	switch {
	case c.Handler == nil:
		return fmt.Errorf("no handler")
	case c.MTU < 576 || c.MTU > 65520:
		return fmt.Errorf("MTU %d is not in 576…65520", c.MTU)
	case !c.Addr.Is4() || !c.Gateway.Is4():
		return fmt.Errorf("addresses %v and %v are not both IPv4", c.Addr, c.Gateway)
	case c.RxBufBytes < 256:
		return fmt.Errorf("receive buffers of %d bytes cannot hold all headers", c.RxBufBytes)
	case c.WindowBytes < 1 || c.WindowBytes > 1<<30:
		return fmt.Errorf("window of %d bytes is not in 1…2^30", c.WindowBytes)
	}
	return nil
}
