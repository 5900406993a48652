package vhostuser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// Features of virtio that change how this package deals with rings or memory.
const (
	featureIndirectDesc   uint64 = 1 << 28
	featureEventIdx       uint64 = 1 << 29
	featureAccessPlatform uint64 = 1 << 33
	featureRingPacked     uint64 = 1 << 34
	featureInOrder        uint64 = 1 << 35
)

// unservable features must not be offered by a Device: they are this package's
// business, or need something from it that it does not do.
const unservable = wire.FeatureLogAll | wire.FeatureProtocol | featureAccessPlatform

// maxQueues is what fits the 8 bits of an index in SET_VRING_KICK.
const maxQueues = 256

// DefaultMemSlots is the number of memory regions that a frontend may add one
// by one: what QEMU's vhost-user code and the kernel's vhost module count with
// (512, three of them reserved).
const DefaultMemSlots = 509

// stall bounds how long a frontend may take to finish a message that it has
// begun, or to take a reply.
const stall = 10 * time.Second

// Config is what a Server is made of.
type Config struct {
	Device Device
	Logger hclog.Logger // nil: no log
	// ProtocolFeatures is the set of protocol features to offer; 0 stands
	// for DefaultProtocolFeatures. See there for what each is good for.
	ProtocolFeatures uint64
	// FrontendServed are features of the Device that need a frontend which serves
	// the device's control queue itself. They are shown to frontends that
	// negotiate in QEMU's order only: UML and crosvm leave that queue to the
	// backend. (DPDK and cloud-hypervisor serve it, but begin as those do.)
	FrontendServed uint64
	// MemSlots is the number of memory regions accepted; 0 stands for
	// DefaultMemSlots. It must not shrink while a frontend may reconnect.
	MemSlots int
	// OneOff makes Serve return when the first frontend is gone. A connection
	// without a single message does not count.
	OneOff bool
}

// Server serves one Device to one frontend at a time.
type Server struct {
	cfg      Config
	dev      Device
	log      *limitedLog
	features uint64 // offered, with those of the protocol itself

	// broken holds what RingBroken reported and wake says that there is news.
	broken []atomic.Pointer[error]
	wake   chan struct{}
}

// New returns a Server for cfg. It fails when the device or the protocol
// features ask for what the package does not do.
func New(cfg Config) (*Server, error) {
	if n := cfg.Device.NumQueues(); n < 1 || n > maxQueues {
		return nil, fmt.Errorf("vhost-user server: device has %d virtqueues, want 1 to %d", n, maxQueues)
	}
	if bad := cfg.Device.Features() & unservable; bad != 0 {
		return nil, fmt.Errorf("vhost-user server: device offers features %#x that cannot be served", bad)
	}
	if cfg.ProtocolFeatures == 0 {
		cfg.ProtocolFeatures = DefaultProtocolFeatures
	}
	if bad := cfg.ProtocolFeatures &^ servedProtocolFeatures; bad != 0 {
		return nil, fmt.Errorf("vhost-user server: protocol features %#x cannot be served", bad)
	}
	if cfg.MemSlots == 0 {
		cfg.MemSlots = DefaultMemSlots
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	features := cfg.Device.Features() | wire.FeatureProtocol
	if cfg.ProtocolFeatures&wire.ProtocolLogShmFD != 0 {
		features |= wire.FeatureLogAll
	}
	return &Server{
		cfg:      cfg,
		dev:      cfg.Device,
		log:      newLimitedLog(cfg.Logger),
		features: features,
		broken:   make([]atomic.Pointer[error], cfg.Device.NumQueues()),
		wake:     make(chan struct{}, 1),
	}, nil
}

// RingBroken tells the server that ring i cannot be used any more, and why. The
// ring is stopped and its frontend is told through the ring's error descriptor.
// It does not block and may be called by any goroutine, but only between
// StartQueue and StopQueue of that ring.
func (s *Server) RingBroken(i int, err error) {
	s.broken[i].Store(&err)
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is already under way
	}
}

// Serve takes frontends from src and serves them one after another, until ctx
// is done or src has no more, which is no error. It does not close src. Only
// one Serve or ServeConn may run at a time.
func (s *Server) Serve(ctx context.Context, src Source) error {
	for ctx.Err() == nil {
		uc, err := src.Next(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			if uc != nil {
				uc.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("wait for a vhost-user frontend: %w", err)
		}
		if s.ServeConn(ctx, uc) > 0 && s.cfg.OneOff {
			return nil
		}
	}
	return nil
}

// ServeConn serves the frontend at the other end of uc until it is gone, sends
// something unacceptable, or ctx is done. It returns, with everything of the
// connection released and uc closed, the number of requests that were handled.
func (s *Server) ServeConn(ctx context.Context, uc *net.UnixConn) int {
	for i := range s.broken {
		s.broken[i].Store(nil)
	}
	peer := peerName(uc)
	s.log.debug("frontend connected", "peer", peer)
	ss := newSession(s, wire.NewConn(uc, 0, stall))
	n, err := ss.run(ctx)
	ss.close()
	switch {
	case ctx.Err() != nil:
		s.log.debug("frontend dropped at shutdown", "peer", peer, "requests", n)
	case err == nil && n == 0:
		s.log.debug("connection closed without a request", "peer", peer)
	case err == nil:
		s.log.info("frontend disconnected", "peer", peer, "requests", n)
	default:
		s.log.warn("frontend connection closed", "peer", peer, "requests", n, "error", err)
	}
	return n
}
