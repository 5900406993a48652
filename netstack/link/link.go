// Package link is what the protocols of one worker share: the frame that has
// just come from the guest, and what is known and agreed about the guest's end
// of the cable.
//
// # The contract between a worker and a protocol
//
// A protocol (tcp, udp, icmp) is a handler that belongs to one worker and runs
// on its thread only. The worker calls, and the handler provides:
//
//   - FromGuest(*Frame): a packet of the protocol. The frame and its vectors are
//     valid until the EndBatch that follows; a handler that keeps bytes longer
//     copies them.
//   - EndBatch(): the frames of a batch are through; what was gathered is sent
//     now, before the frames' buffers go back to the guest.
//   - Event(token, ready): a descriptor that the handler registered is ready.
//     Tokens are made by Token, so that a handler finds its flow by index and
//     recognises events of a flow that is gone by generation.
//   - Refilled(): the guest has added buffers after the queue had starved;
//     parked flows go on.
//   - Run() bool: goes on with work left from an earlier turn that its budget
//     ended; true while some is left.
//   - NextDeadlineMs() and Advance(): timers, in milliseconds of Link.NowMs.
//   - Fault(): guest memory vanished, and the rings with it. Any of the above may
//     have ended halfway, wherever it touched a ring, the vectors of a frame or
//     the queue; the handler makes its state whole again. Events are told only
//     once: one that was cut short is not told again.
//
// Handlers write frames to the framequeue.Queue and never flush it: the worker
// does, once a turn.
package link

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// Link is the state of the guest's end. The worker writes it; handlers read.
type Link struct {
	OurMAC   header.MAC
	GuestMAC header.MAC // broadcast until the guest was heard
	MTU      int        // of the guest's interface: bytes of IP packet
	// Guest4 and Guest6 are where inbound connections go: the configured
	// address, or the one that the guest was last seen to use.
	Guest4 header.Addr
	Guest6 header.Addr
	// GuestLinkLocal is the link-local address that the guest was seen to use,
	// or the zero Addr.
	GuestLinkLocal header.Addr
	// OurLinkLocal is our IPv6 address on the link, and the guest's router.
	OurLinkLocal header.Addr
	Gateway4     header.Addr

	// Features are the negotiated bits that shape frames (header.Feature…).
	Features uint64
	// WantGuest is set by a handler that has frames for a guest whose hardware
	// address is not known; the worker asks for it.
	WantGuest bool
	// MemoryGone is set by a handler that a system call told (EFAULT) that guest
	// memory is not there; the worker takes the rings away, as after a fault of its
	// own.
	MemoryGone bool
	// ExtraSends is what the frames of the guest in this turn have cost beyond one
	// system call each; the worker ends the guest's share of the turn by it.
	ExtraSends int
	// NowMs is the monotonic time of this turn, in milliseconds.
	NowMs int64

	// Others are the workers of the other queue pairs; nil: there are none.
	Others Others
}

// Others is what a handler knows of the workers of the other queue pairs. A flow
// belongs to one worker at a time, and moves to the one on whose ring the guest
// sends it. All of this costs a lock, and is for what is rare: a frame whose flow
// this worker does not have, the beginning and the end of a flow.
type Others interface {
	// Elsewhere reports whether the flow k belongs to another worker. That one
	// is asked for it then, and fr, which may be nil, is handled when it has
	// come. Otherwise the flow is this worker's from now on, whether it comes
	// to exist or not: see Disown.
	Elsewhere(k flowtable.Key, fr *Frame) bool
	// Own makes the flow k this worker's. One that is bound to it does not move:
	// the frames do.
	Own(k flowtable.Key, bound bool)
	// Disown is called when this worker's flow k has ended, or has not come to
	// be.
	Disown(k flowtable.Key)
	// Place decides which worker has the connection k, which the host's side
	// begins, and hands c, what is known of it, to its handler there. It reports
	// false if it is this worker.
	Place(k flowtable.Key, c any) bool
	// ToFirst hands a frame to the worker of the first queue pair, which has
	// what cannot be shared. It reports false if this is the first one.
	ToFirst(fr *Frame) bool
}

// Has reports whether all bits of feature were negotiated.
func (l *Link) Has(feature uint64) bool { return l.Features&feature == feature }

// Frame is one frame from the guest.
type Frame struct {
	Packet header.Packet
	Vnet   header.Vnet
	// Head is a private copy of the first bytes of the frame, from the
	// Ethernet header on: all of its headers, or the whole of a short frame.
	Head []byte
	// Vecs are the frame in guest memory, vnet header in front. The guest may
	// change it at any time: decide by Packet and Head only.
	Vecs []iov.Vec
	// Bytes is the length of the frame without the vnet header.
	Bytes int
}

// AppendPayload appends to dst where the payload of the transport protocol
// lies in guest memory, and returns its length in bytes.
func (f *Frame) AppendPayload(dst []iov.Vec) ([]iov.Vec, int) {
	n := f.Packet.End - f.Packet.Payload
	return iov.AppendRange(dst, f.Vecs, header.VnetLen+f.Packet.Payload, n), n
}

// Token makes the token under which a handler registers a descriptor: which
// handler, which flow of it, and the flow's generation.
func Token(handler uint8, generation uint32, index uint32) uint64 {
	return uint64(handler)<<56 | uint64(generation&0xffffff)<<32 | uint64(index)
}

// SplitToken takes a token apart.
func SplitToken(t uint64) (handler uint8, generation uint32, index uint32) {
	return uint8(t >> 56), uint32(t>>32) & 0xffffff, uint32(t)
}
