package synth

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Counters count since the guest was started.
type Counters struct {
	FramesSent, FramesReceived   uint64
	BytesReceived                uint64 // TCP payload in order
	Datagrams, DatagramBytes     uint64 // received
	Kicks, Calls, Sleeps         uint64
	Unknown                      uint64 // segments of no connection
	Resent                       uint64 // times that a connection went back
	Late                         uint64 // acknowledgements of what was sent again, for a connection that had ended meanwhile
	OutOfOrder, Ignored, ICMP    uint64
	Opened, Closed, Reset, Limit uint64 // connections; Limit: refused for want of a Conn
}

// Guest is a running synthetic guest. See the package text.
type Guest struct {
	cfg Config
	mem *vutest.Memory
	vm  *vutest.Guest
	fe  *vutest.Frontend

	// Features are those negotiated.
	Features uint64
	Counters Counters

	rx      rxRing
	tx      txRing
	frames  frameMaker
	payload payload
	conns   connTable
	late    map[uint64]uint8 // how often a connection has sent something again, by its key, until the key is used again
	listens map[uint16]bool
	ports   uint16 // the last local port given out
	serial  uint32 // connections begun
	clock   clock

	pair         int  // which queue pair it has
	shared       bool // memory and frontend are the first pair's
	started      bool
	gatewayKnown bool
	wscale       uint8
	window       uint16
}

// Dial starts a guest on the backend that listens at path, and waits until it
// has found its gateway.
func Dial(path string, cfg Config) (*Guest, error) {
	fe, err := vutest.Dial(path, cfg.Style)
	if err != nil {
		return nil, fmt.Errorf("synth: %w", err)
	}
	return New(fe, cfg)
}

// New is Dial with a frontend that is connected to the backend already, which
// the guest owns from now on.
func New(fe *vutest.Frontend, cfg Config) (*Guest, error) {
	g := &Guest{cfg: cfg, fe: fe, listens: map[uint16]bool{}, ports: firstPort - 1}
	if err := g.start(1); err != nil {
		return nil, fmt.Errorf("synth: %w", errors.Join(err, g.Close()))
	}
	if err := g.findGateway(); err != nil {
		return nil, fmt.Errorf("synth: %w", errors.Join(err, g.Close()))
	}
	return g, nil
}

// start begins a guest with some queue pairs, of which g has the first.
func (g *Guest) start(pairs int) (err error) {
	if err := g.cfg.fill(); err != nil {
		return err
	}
	for g.cfg.WindowBytes>>g.wscale > 0xffff {
		g.wscale++
	}
	g.window = uint16(g.cfg.WindowBytes >> g.wscale)
	if err := g.fe.Connect(); err != nil {
		return err
	}
	offer := g.fe.Offered & g.cfg.Features
	if need := uint64(featureVersion1 | header.FeatureMrgRxBuf); offer&need != need {
		return fmt.Errorf("the backend offers %#x, which lacks VERSION_1 or MRG_RXBUF", g.fe.Offered)
	}
	g.Features = offer
	if err := g.layOut(offer, pairs); err != nil {
		return err
	}
	if g.Features, err = g.fe.Start(g.vm, offer); err != nil {
		return err
	}
	g.started = true
	return g.fill()
}

// fill gives the device of the pair its buffers.
func (g *Guest) fill() error {
	g.conns.init(g.cfg.Conns)
	g.late = make(map[uint64]uint8)
	g.frames.init(&g.cfg, g.Features)
	return g.rx.fill()
}

// layOut makes guest memory, with rings, buffers and the payload in it.
func (g *Guest) layOut(features uint64, pairs int) (err error) {
	n := uint64(g.cfg.RingSize)
	slot, _ := slotStride(&g.cfg, features)
	size := uint64(pairs)*(n*uint64(g.cfg.RxBufBytes+slot+256)+1<<20) + 2*patternBytes
	if g.mem, err = vutest.NewMemory(vutest.Span{GuestAddr: 1 << 20, Size: (size + 0xfff) &^ 0xfff}); err != nil {
		return err
	}
	g.vm, err = vutest.NewGuest(g.mem, 2*pairs, virtqtest.Config{
		Size: uint16(n), IndirectEntries: 2,
		EventIdx: features&featureEventIdx != 0, Indirect: features&featureIndirectDesc != 0,
	})
	if err != nil {
		return err
	}
	addr, err := g.mem.Alloc(2*patternBytes, 4096)
	if err != nil {
		return err
	}
	g.payload.init(addr, g.mem.Bytes(addr, 2*patternBytes))
	return g.initRings()
}

func (g *Guest) initRings() error {
	return errors.Join(g.rx.init(g, g.vm.Queues[2*g.pair]), g.tx.init(g, g.vm.Queues[2*g.pair+1]))
}

// Close ends the guest: the backend is told that the rings stop, and memory goes.
// Of a guest of NewPairs, the first one ends all.
func (g *Guest) Close() error {
	if g.shared {
		return nil
	}
	var errs []error
	if g.started {
		errs = append(errs, g.fe.Stop())
	}
	errs = append(errs, g.fe.Close())
	if g.vm != nil {
		errs = append(errs, g.vm.Close())
	}
	if g.mem != nil {
		errs = append(errs, g.mem.Close())
	}
	g.vm, g.mem, g.started = nil, nil, false
	return errors.Join(errs...)
}

// findGateway learns the gateway's hardware address.
func (g *Guest) findGateway() error {
	for range 5 {
		g.askGateway()
		err := g.Run(400*time.Millisecond, func() bool { return g.gatewayKnown })
		if !errors.Is(err, ErrTimeout) {
			return err
		}
	}
	return fmt.Errorf("nobody answers for the gateway %v: %w", g.cfg.Gateway, ErrTimeout)
}

// word is an IPv4 address as a number.
func word(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func fromWord(w uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(w >> 24), byte(w >> 16), byte(w >> 8), byte(w)})
}
