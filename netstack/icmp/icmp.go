// Package icmp carries the guest's echo requests (ping) over the host's
// unprivileged ping sockets, icmp(7), so that an answer always is a real one:
// from the host that was asked, with its own delay, or none at all.
//
// Each pair of identifier and destination is a flow with a socket of its own.
// The socket's identifier is the guest's where that is free, and is translated
// where it is not; sequence number and payload pass unchanged, in sizes up to
// the largest IP packet. Flows end 60 s after their last request (RFC 5508 REQ-1
// and REQ-2), or earlier when there are too many: the one that is idle longest
// goes first. ICMP errors about a request reach the guest with type, code and
// sender, quoting the request as the guest had sent it; the guest's TTL is the
// socket's. So traceroute -I works.
//
// The addresses that exist only between us and the guest are answered here: our
// link-local address, and the IPv4 gateway if it is made up.
//
// If the host allows no ping sockets (sysctl net.ipv4.ping_group_range), pings
// are dropped, counted, and reported once.
package icmp

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/datagram"
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/netstack/timerwheel"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// Config is what a Handler works with. The pointers are shared with the worker
// and used on its thread only.
type Config struct {
	Link   *link.Link
	Queue  *framequeue.Queue
	Poller *poller.Poller
	Map    *addrmap.Map
	// FlowHandler is the handler number of link.Token.
	FlowHandler uint8
	// Outbound4 and Outbound6 are the source addresses of sockets; the zero
	// Addr leaves the choice to the kernel.
	Outbound4, Outbound6 header.Addr
	// Device4 and Device6 are the interfaces that sockets send by; the zero
	// Device leaves the choice to the kernel.
	Device4, Device6 hostsock.Device
	// MaxFlows bounds the flows, and so the sockets; 0 means 256.
	MaxFlows int
	// OwnGateway says that no host has the address Link.Gateway4.
	OwnGateway bool
	// Forbidden, if not nil, is called once, on the worker's thread, when the
	// host refuses a ping socket; it must not block.
	Forbidden func(errno hostsock.Errno)
}

const defaultMaxFlows = 256

// Counters count since the handler was made.
type Counters struct {
	Requests      uint64 // handed to the host
	Replies       uint64 // from the host to the guest
	Answered      uint64 // by us
	Opened        uint64 // flows
	Recycled      uint64 // flows ended early to make room
	Rehomed       uint64 // flows ended because the host's address has changed
	Forbidden     uint64 // requests dropped: the host allows no ping sockets
	Limited       uint64 // requests dropped: no descriptor or memory
	SendFailed    uint64 // requests dropped: any other error
	NotCarried    uint64 // other types, multicast, broadcast
	Martian       [addrmap.NumVerdicts]uint64
	Stray         uint64 // dropped on the way to the guest: from somebody else
	ErrorsToGuest uint64
	ToGuest       datagram.Counters // filled in by Stats
}

// Handler carries the pings of one worker. See the package text and, for its
// methods, the contract in package link.
type Handler struct {
	cfg    Config
	calls  hostsock.DatagramCalls
	conn   hostsock.Calls
	out    *datagram.Writer
	table  *flowtable.Table
	wheel  *timerwheel.Wheel
	onFire func(uint32)

	flows  []flow
	unused []uint32
	live   int

	head   [header.ICMPLen]byte // ICMP header on its way between guest and socket
	vecs   []iov.Vec
	ready  []uint32 // flows that may have replies
	parked []uint32 // flows that wait for buffers of the guest, or for retryAtMs

	retryAtMs int64 // when the parked ones go on anyway; 0: never

	queued hostsock.QueuedError
	quoted [header.MaxICMPv6Error]byte
	told   bool // Forbidden was called

	Counters Counters
}

// New returns a handler without flows.
func New(cfg Config) *Handler {
	if cfg.MaxFlows == 0 {
		cfg.MaxFlows = defaultMaxFlows
	}
	h := &Handler{
		cfg:   cfg,
		out:   datagram.NewWriter(cfg.Link, cfg.Queue),
		wheel: timerwheel.New(cfg.Link.NowMs),
		vecs:  make([]iov.Vec, 0, 64),
	}
	h.table = flowtable.New(h)
	h.onFire = h.fire
	return h
}

// SetOwnGateway changes Config.OwnGateway.
func (h *Handler) SetOwnGateway(own bool) { h.cfg.OwnGateway = own }

// HasKey implements flowtable.Keys.
func (h *Handler) HasKey(i uint32, k *flowtable.Key) bool { return h.flows[i].key == *k }

// NumFlows returns how many flows there are.
func (h *Handler) NumFlows() int { return h.live }

// Stats returns the counters.
func (h *Handler) Stats() Counters {
	c := h.Counters
	c.ToGuest = h.out.Counters
	return c
}

// EndBatch has nothing to do: every request is sent when it comes.
func (h *Handler) EndBatch() {}

// Event handles readiness of a flow's socket.
func (h *Handler) Event(token uint64, ready poller.Readiness) {
	_, gen, i := link.SplitToken(token)
	if int(i) >= len(h.flows) {
		return
	}
	f := &h.flows[i]
	if !f.inUse || f.gen&0xffffff != gen {
		return
	}
	if ready&poller.Readable != 0 {
		h.makeReady(i, f)
	}
	if ready&poller.Failed != 0 {
		h.flowErrors(f)
	}
}

func (h *Handler) makeReady(i uint32, f *flow) {
	if !f.waiting {
		f.waiting = true
		h.ready = append(h.ready, i)
	}
}

// Run delivers replies and reports whether there are more.
func (h *Handler) Run() bool {
	for n := len(h.ready); n > 0; n-- {
		i := h.ready[0]
		h.ready = h.ready[:copy(h.ready, h.ready[1:])]
		f := &h.flows[i]
		if f.inUse && f.waiting {
			f.waiting = false
			h.toGuest(i, f)
		}
	}
	return len(h.ready) > 0
}

// Refilled lets flows go on that waited for buffers of the guest.
func (h *Handler) Refilled() {
	if h.out.Refilled() {
		h.unpark()
	}
}

func (h *Handler) unpark() {
	h.ready = append(h.ready, h.parked...)
	h.parked = h.parked[:0]
}

// NextDeadlineMs is when Advance is due, or -1.
func (h *Handler) NextDeadlineMs() int64 {
	next := h.wheel.Next()
	if d := h.out.NextDeadlineMs(); d >= 0 && (next < 0 || d < next) {
		next = d
	}
	if h.retryAtMs != 0 && (next < 0 || h.retryAtMs < next) {
		next = h.retryAtMs
	}
	return next
}

// Advance runs the timers that are due.
func (h *Handler) Advance() {
	h.wheel.Advance(h.cfg.Link.NowMs, h.onFire)
	retry := h.retryAtMs != 0 && h.retryAtMs <= h.cfg.Link.NowMs
	if retry {
		h.retryAtMs = 0
	}
	if h.out.Advance() || retry {
		h.unpark()
	}
}

// Close closes all sockets.
func (h *Handler) Close() {
	for i := range h.flows {
		if h.flows[i].inUse {
			h.release(uint32(i))
		}
	}
}
