package tcp

import (
	"hash/maphash"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
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
	// Outbound4 and Outbound6 are the source addresses of connections to the
	// host's side; the zero Addr leaves the choice to the kernel.
	Outbound4, Outbound6 header.Addr
	// Device4 and Device6 are the interfaces that such connections leave by;
	// the zero Device leaves the choice to the kernel.
	Device4, Device6 hostsock.Device
	// MaxSendBufferBytes is the largest send buffer that the host gives a
	// socket (the last number of tcp_wmem, tcp(7)); windows are scaled for it. 0
	// takes Linux' own default.
	MaxSendBufferBytes int
	// MaxFrameBytes is how much TCP data a frame to a guest that takes frames
	// above 64 KiB may carry, at most MaxBigBytes; 0 makes no such frames.
	MaxFrameBytes int
	// NoPeekOffset says that the kernel refuses SO_PEEK_OFF (hostsock.HasPeekOffset).
	NoPeekOffset bool
	// Descriptors is how many the process may have; 0 sets no bound.
	Descriptors int
	// MaxFlows bounds the connections, MaxConnecting those whose host connect
	// is under way. 0 takes the default, as far as Descriptors allows.
	MaxFlows, MaxConnecting int
	// Shrunk, if not nil, is called when the memory of many flows was let go.
	Shrunk func()
}

const (
	defaultMaxFlows      = 128 << 10
	defaultMaxConnecting = 4096
	reservedDescriptors  = 600
	defaultMaxSendBuffer = 4 << 20
)

// Counters count since the handler was made.
type Counters struct {
	SegmentsFromGuest uint64
	BytesFromGuest    uint64
	FramesToGuest     uint64
	BytesToGuest      uint64
	Opened            uint64 // flows that became established
	Accepted          uint64 // connections taken on forwarded ports
	Refused           uint64 // guest connections that the host's side refused
	Dropped           uint64 // segments dropped: malformed, or not allowed
	OutOfOrder        uint64 // segments that did not begin where expected
	Retransmits       uint64 // times that frames to the guest were sent again
	Timeouts          uint64 // of these, by the timer
	ResetsSent        uint64 // RST segments to the guest
	Limited           uint64 // flows refused by a limit, or for want of descriptors
	Stashed           uint64 // bytes a socket did not take at once
	BigToGuest        uint64 // frames above 64 KiB
	BigRefused        uint64 // of these, first ones of a flow that the guest did not take
	PeakFlows         uint64
}

// Handler translates the TCP of one worker. See the package text and, for its
// methods, the contract in package link.
type Handler struct {
	cfg   Config
	calls hostsock.Calls
	table *flowtable.Table
	flows slab
	// maxFlows and maxConnecting hold without others: see Share.
	maxFlows, maxConnecting int
	wheel                   *timerwheel.Wheel
	seed                    maphash.Seed

	listeners   []Listener
	acceptAtMs  int64        // when to accept again by the clock; 0: not
	resumeAtMs  int64        // when parked flows go on by the clock; 0: not
	windowShift uint8        // scale of our windows
	big         [2]bigFamily // IPv4, IPv6
	peekOffset  bool         // the kernel has SO_PEEK_OFF for TCP

	// What is gathered from the current batch for one flow's socket.
	gather      []iov.Vec
	gatherBytes int
	gatherFlow  *flow
	gatherIndex uint32

	stash      map[uint32][]byte     // what sockets did not take, by flow
	early      map[uint32]*early     // what came before its turn, by flow
	stashBytes int                   // in both
	held       map[uint32]scoreboard // of flows that have lost something

	acks    []uint32 // flows that may owe an acknowledgement
	ready   []uint32 // flows that may have data for the guest
	running []uint32 // the list of ready flows being gone through
	parked  []uint32 // flows that wait for buffers of the guest
	waking  []uint32 // the list of parked flows being gone through
	waiting []uint32 // flows in synSent, which wait for the guest
	pending []uint32 // flows in connecting

	nextLook int // where in pending to look next for one to give up

	accepting int // a socket on its way from a listener to its flow, or -1

	scratch [header.EthLen + header.IPv6Len + 60]byte
	peekVec []iov.Vec // with room in front for what is skipped, where needed
	skip    []byte    // where skipped bytes go

	Counters Counters
}

// New returns a handler without flows.
func New(cfg Config) *Handler {
	if cfg.MaxFlows == 0 {
		cfg.MaxFlows = defaultMaxFlows
		if limit := cfg.Descriptors; limit > 0 {
			// Some must be left for UDP, which takes a quarter, and for the next
			// frontend.
			cfg.MaxFlows = max(min(defaultMaxFlows, limit-limit/4-reservedDescriptors), limit/4)
		}
	}
	if cfg.MaxConnecting == 0 {
		cfg.MaxConnecting = defaultMaxConnecting
	}
	if cfg.MaxSendBufferBytes == 0 {
		cfg.MaxSendBufferBytes = defaultMaxSendBuffer
	}
	h := &Handler{
		maxFlows: cfg.MaxFlows, maxConnecting: cfg.MaxConnecting,
		windowShift: windowShift(cfg.MaxSendBufferBytes),
		cfg:         cfg,
		seed:        maphash.MakeSeed(),
		stash:       map[uint32][]byte{},
		early:       map[uint32]*early{},
		held:        map[uint32]scoreboard{},
		gather:      make([]iov.Vec, 0, hostsock.MaxVecs),
		accepting:   -1,
		peekOffset:  !cfg.NoPeekOffset,
	}
	h.makeLists()
	h.table = flowtable.New(&h.flows)
	h.wheel = timerwheel.New(cfg.Link.NowMs)
	return h
}

// NumFlows returns how many flows there are.
func (h *Handler) NumFlows() int { return h.flows.live }

// MaxFlows returns how many flows there may be.
func (h *Handler) MaxFlows() int { return h.cfg.MaxFlows }

// now is the turn's time modulo 2^32 ms: comparisons reach 24 days.
func (h *Handler) now() uint32 { return uint32(h.cfg.Link.NowMs) }

// Event handles readiness of a flow's socket.
func (h *Handler) Event(token uint64, ready poller.Readiness) {
	_, gen, i := link.SplitToken(token)
	f := h.find(gen, i)
	if f == nil || f.fd < 0 {
		return
	}
	if f.state == connecting {
		h.connectEvent(i, f, ready)
		return
	}
	h.noteEnd(f, ready)
	if f.state == synSent && ready&(poller.HungUp|poller.Failed) != 0 {
		h.release(i, f) // the client has given up before the guest answered
		return
	}
	if ready&poller.Writable != 0 {
		h.writable(i, f)
	}
	if ready&(poller.Readable|poller.PeerEnded|poller.HungUp|poller.Failed) != 0 && f.state != free {
		f.set(hostReadable)
		h.makeReady(i, f)
	}
}

// noteEnd notes what readiness says about the end of the host's stream.
func (h *Handler) noteEnd(f *flow, ready poller.Readiness) {
	if ready&(poller.PeerEnded|poller.HungUp|poller.Failed) != 0 {
		f.set(hostEnded)
	}
	if ready&poller.Failed != 0 {
		f.set(hostFailed)
	}
	if ready&poller.Urgent != 0 {
		f.set(hostUrgent)
	}
}

// find returns the flow that a token was made for, or nil if it is gone.
func (h *Handler) find(gen, i uint32) *flow {
	if int(i/chunkFlows) >= len(h.flows.chunks) {
		return nil
	}
	f := h.flows.at(i)
	if f.state == free || f.gen&0xffffff != gen {
		return nil
	}
	return f
}

// makeReady puts f in line for a run towards the guest.
func (h *Handler) makeReady(i uint32, f *flow) {
	if !f.has(onReady) {
		f.set(onReady)
		h.ready = append(h.ready, i)
	}
}

// Run lets every ready flow send to the guest, each up to its budget, and
// reports whether some have more.
func (h *Handler) Run() bool {
	h.ready, h.running = h.running[:0], h.ready
	for _, i := range h.running {
		f := h.flows.at(i)
		if f.has(onReady) {
			f.clear(onReady)
			h.toGuest(i, f)
		}
	}
	h.running = h.running[:0]
	if h.flows.live == 0 && len(h.flows.chunks) > 1 {
		h.shrink()
	}
	return len(h.ready) > 0
}

// Refilled lets the flows go on that waited for buffers of the guest.
func (h *Handler) Refilled() {
	h.parked, h.waking = h.waking[:0], h.parked
	for _, i := range h.waking {
		f := h.flows.at(i)
		if !f.has(onParked) {
			continue
		}
		f.clear(onParked)
		if f.state == resetting {
			h.tellReset(i, f)
			continue
		}
		h.makeReady(i, f)
	}
}

// park makes f wait for buffers of the guest.
func (h *Handler) park(i uint32, f *flow) {
	if !f.has(onParked) {
		f.set(onParked)
		f.listAt = uint32(len(h.parked))
		h.parked = append(h.parked, i)
	}
}

// unlist takes f out of the list of those that wait for something, if it is in
// one: its place is taken by the last one.
func (h *Handler) unlist(f *flow) {
	var list *[]uint32
	switch {
	case f.state == synSent:
		list = &h.waiting
	case f.state == connecting:
		list = &h.pending
	case f.has(onParked):
		f.clear(onParked)
		list = &h.parked
	default:
		return
	}
	last := len(*list) - 1
	moved := (*list)[last]
	(*list)[f.listAt] = moved
	h.flows.at(moved).listAt = f.listAt
	*list = (*list)[:last]
}

// Close resets every flow towards the host and closes all sockets.
func (h *Handler) Close() {
	for c := range h.flows.chunks {
		for j := range chunkFlows {
			i := uint32(c*chunkFlows + j)
			if f := h.flows.at(i); f.state != free {
				h.abortHost(f)
				h.release(i, f)
			}
		}
	}
	for _, l := range h.listeners {
		hostsock.Close(l.FD)
	}
	h.listeners = nil
}

// release frees a flow and all it holds. The socket, if it is still open, is
// closed in the ordinary way.
func (h *Handler) release(i uint32, f *flow) {
	if f == h.gatherFlow {
		h.gatherFlow, h.gather, h.gatherBytes = nil, h.gather[:0], 0
	}
	if f.fd >= 0 {
		hostsock.Close(int(f.fd))
		f.fd = -1
	}
	h.dropStash(i, f)
	h.dropEarly(i, f)
	h.unlist(f)
	h.dropHeld(i, f)
	h.bigForget(f)
	h.wheel.Cancel(i)
	h.table.Delete(&f.key)
	if o := h.cfg.Link.Others; o != nil {
		o.Disown(f.key)
	}
	h.flows.put(i)
}

// add makes a flow for k, or returns nil at a limit.
func (h *Handler) add(k *flowtable.Key) (uint32, *flow) {
	if h.flows.live >= h.cfg.MaxFlows {
		h.Counters.Limited++
		return 0, nil
	}
	i, f := h.flows.get()
	f.key = *k
	f.seenAtMs = h.now()
	h.table.Insert(k, i)
	if o := h.cfg.Link.Others; o != nil {
		o.Own(*k, false)
	}
	h.Counters.PeakFlows = max(h.Counters.PeakFlows, uint64(h.flows.live))
	return i, f
}

// firstSeq chooses the initial sequence number of a flow: a keyed hash of the
// connection plus a clock of 4 us ticks (RFC 6528 section 3).
func (h *Handler) firstSeq(k *flowtable.Key) uint32 {
	return uint32(maphash.Comparable(h.seed, *k)) + uint32(h.cfg.Link.NowMs*250)
}
