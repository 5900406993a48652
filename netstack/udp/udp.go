// Package udp carries the guest's UDP over sockets of the host.
//
// # Flows
//
// UDP has no connections, but sockets and forgetting need something like them.
// A flow is a pair of endpoints: the guest's, and the remote one as the guest
// sees it. A datagram of the guest that belongs to no flow opens one, with a
// connected socket of its own, bound to the guest's port if the host lets us
// have it; else the kernel chooses, and the datagram is not lost for that.
//
// Datagrams from outside come through listeners, the sockets of forwarded
// ports. Their flows have no sockets: all that concerns them goes through the
// listener, with the local address that the peer had asked for. If the guest
// sends from the port that a listener forwards to, its flow uses the listener
// as well, so that a server answers and calls from the same endpoint.
//
// # Forgetting
//
// A flow that has seen no answer, or one datagram each way, lives for 30 s after
// its last datagram, others for 120 s (RFC 4787 REQ-5 asks for two minutes, and
// allows less for well-known exchanges). A DNS exchange that is complete is
// forgotten after 2 s. When flows or descriptors run out, the oldest flow of the
// first kind is recycled, or else the oldest of all.
//
// # Sizes
//
// Datagrams keep their sizes, 0 to 65507 bytes. Package reassembly puts
// together what the guest had to fragment; package datagram fragments for the
// guest. A packet that the guest forbids to fragment (DF set, or IPv6 that is
// not a fragment) is not fragmented by the host either: the guest is told the
// path's MTU.
//
// # Errors
//
// ICMP errors that the host's kernel queues for a socket reach the guest with
// their type, code, sender and MTU, quoting the packet as the guest had sent it.
// The guest's TTL is the socket's, so that traceroute works through it.
//
// # Trains
//
// Datagrams of one flow and size that lie on the guest's ring together go to the
// host's kernel in one call, which cuts them again (UDP_SEGMENT); so do those that
// the guest hands over as one frame (VIRTIO_NET_F_HOST_USO). Nothing waits for
// more to come. What the kernel does not take as a train, because the path's MTU
// is smaller or an error of an earlier datagram waits, goes one by one, so that
// errors are about the right one.
//
// The other way, one call receives as many datagrams as lately were there at a time
// (recvmmsg), or a train of them (UDP_GRO), which becomes one frame where the guest
// takes it.
//
// # Full and empty
//
// A datagram for a full socket is dropped, as a router would. Without buffers of
// the guest, datagrams stay in their sockets until it adds some: nothing polls.
// They stay a moment as well when the kernel cannot hand them over, for want of
// memory say.
//
// # Not carried
//
// Broadcast and link-local multicast (RFC 5771 section 4, RFC 4291 section
// 2.7: the link ends here); answers to multicast that come from other addresses; DSCP and ECN.
package udp

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
	// FlowHandler and ListenHandler are the handler numbers of link.Token for
	// the sockets of flows and of forwarded ports.
	FlowHandler, ListenHandler uint8
	// Outbound4 and Outbound6 are the source addresses of sockets; the zero
	// Addr leaves the choice to the kernel.
	Outbound4, Outbound6 header.Addr
	// Device4 and Device6 are the interfaces that sockets send by; the zero
	// Device leaves the choice to the kernel.
	Device4, Device6 hostsock.Device
	// Descriptors is how many the process may have; 0 sets no bound.
	Descriptors int
	// MaxFlows bounds the flows. 0 takes a quarter of Descriptors, so that TCP
	// always finds some, at most 16384.
	MaxFlows int
}

const (
	defaultMaxFlows = 16 << 10
	// maxQuoted is how much payload an ICMP error quotes at most.
	maxQuoted = header.MaxICMPv6Error - 2*header.IPv6Len - header.ICMPLen - header.UDPLen
)

// Counters count since the handler was made.
type Counters struct {
	FromGuest      uint64 // datagrams handed to the host
	BytesFromGuest uint64 // of their payload
	Trains         uint64 // calls that took several of them
	Opened         uint64 // flows
	Inbound        uint64 // of these, begun by the host's side
	Recycled       uint64 // flows ended early to make room
	Expired        uint64 // flows ended by their timer
	Rehomed        uint64 // flows ended because the host's address has changed
	OtherPort      uint64 // flows whose port the host did not let us have
	SendFull       uint64 // dropped: the socket was full
	SendFailed     uint64 // dropped: any other error
	NotCarried     uint64 // dropped: broadcast, link-local multicast, port 0
	Martian        [addrmap.NumVerdicts]uint64
	Limited        uint64 // dropped: no descriptor, or no memory
	Undeliverable  uint64 // from the host's side, dropped: no address of the guest, or stray
	Retried        uint64 // receives that failed, and were tried again later
	ErrorsToGuest  uint64 // ICMP errors
	PeakFlows      uint64
	ToGuest        datagram.Counters // filled in by Stats
}

// Handler carries the UDP of one worker. See the package text and, for its
// methods, the contract in package link.
type Handler struct {
	cfg    Config
	calls  hostsock.DatagramCalls
	many   hostsock.ManyCalls
	conn   hostsock.Calls
	out    *datagram.Writer
	table  *flowtable.Table
	flows  slab
	wheel  *timerwheel.Wheel
	onFire func(uint32)

	// By how long they live: oneShot holds flows that may be recycled first.
	// Each is in the order in which its flows came to it.
	oneShot, lasting ageList

	listeners []listener
	borrowed  bool             // the listeners are another handler's: see Borrow
	maxFlows  int              // without others: see Share
	byPort    map[uint16][]int // listeners that lead to a port of the guest

	era uint8 // changes when sockets may no longer be right: see Rehome

	train        train
	gather       []iov.Vec
	messages     [hostsock.MaxMany]datagram.Message
	ready        []uint32 // flows that may have datagrams for the guest
	running      []uint32 // the list of ready flows being gone through
	parked       []uint32 // flows that wait for buffers of the guest, or for retryAtMs
	readyListen  bool     // some listener may have datagrams
	parkedListen bool     // some listener waits for these
	retryAtMs    int64    // 0: nothing waits for it

	queued  hostsock.QueuedError
	payload [maxQuoted]byte // of the datagram that queued is about

	Counters Counters
}

// New returns a handler without flows.
func New(cfg Config) *Handler {
	if cfg.MaxFlows == 0 {
		cfg.MaxFlows = defaultMaxFlows
		if cfg.Descriptors > 0 {
			cfg.MaxFlows = min(max(cfg.Descriptors/4, 16), defaultMaxFlows)
		}
	}
	h := &Handler{
		cfg: cfg, maxFlows: cfg.MaxFlows,
		out:    datagram.NewWriter(cfg.Link, cfg.Queue),
		wheel:  timerwheel.New(cfg.Link.NowMs),
		byPort: map[uint16][]int{},
		train:  train{vecs: make([]iov.Vec, 0, hostsock.MaxVecs)},
		gather: make([]iov.Vec, 0, hostsock.MaxVecs),
		ready:  make([]uint32, 0, 256), running: make([]uint32, 0, 256), parked: make([]uint32, 0, 256),
	}
	h.table = flowtable.New(h)
	h.onFire = h.fire
	return h
}

// HasKey implements flowtable.Keys.
func (h *Handler) HasKey(i uint32, k *flowtable.Key) bool { return h.flows.at(i).key == *k }

// NumFlows returns how many flows there are.
func (h *Handler) NumFlows() int { return h.flows.live }

// MaxFlows returns how many flows there may be.
func (h *Handler) MaxFlows() int { return h.cfg.MaxFlows }

// Stats returns the counters.
func (h *Handler) Stats() Counters {
	c := h.Counters
	c.ToGuest = h.out.Counters
	return c
}

// EndBatch sends the datagrams of the guest that wait for more to come.
func (h *Handler) EndBatch() { h.depart() }

// Event handles readiness of a flow's socket.
func (h *Handler) Event(token uint64, ready poller.Readiness) {
	_, gen, i := link.SplitToken(token)
	f := h.flows.find(gen, i)
	if f == nil {
		return
	}
	if ready&(poller.Readable|poller.HungUp) != 0 {
		h.makeReady(i, f)
	}
	if ready&poller.Failed != 0 {
		h.flowErrors(f)
	}
}

// makeReady puts f in line for a run towards the guest.
func (h *Handler) makeReady(i uint32, f *flow) {
	if !f.has(onReady | onParked) {
		f.set(onReady)
		h.ready = append(h.ready, i)
	}
}

// Run lets ready flows and listeners deliver to the guest, each up to its
// budget, and reports whether some have more.
func (h *Handler) Run() bool {
	h.ready, h.running = h.running[:0], h.ready
	for _, i := range h.running {
		if f := h.flows.at(i); f.has(onReady) {
			f.clear(onReady)
			h.toGuest(i, f)
		}
	}
	h.running = h.running[:0]
	if h.readyListen {
		h.runListeners()
	}
	return len(h.ready) > 0 || h.readyListen
}

// Refilled lets flows and listeners go on that waited for buffers of the guest.
func (h *Handler) Refilled() {
	if h.out.Refilled() {
		h.unpark()
	}
}

func (h *Handler) unpark() {
	for _, i := range h.parked {
		if f := h.flows.at(i); f.has(onParked) {
			f.clear(onParked)
			h.makeReady(i, f)
		}
	}
	h.parked = h.parked[:0]
	if h.parkedListen {
		h.parkedListen, h.readyListen = false, true
	}
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
	h.train.segs = 0
	for h.flows.live > 0 {
		h.release(h.oldest())
	}
	for j := range h.listeners {
		if !h.borrowed {
			hostsock.Close(h.listeners[j].FD)
		}
	}
	h.listeners = nil
	clear(h.byPort)
}
