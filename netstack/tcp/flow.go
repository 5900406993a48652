package tcp

import "github.com/vhost-net-go/vhost-net-go/netstack/flowtable"

// state is where a flow is in its life; see the package text.
type state uint8

const (
	free state = iota
	connecting
	synReceived
	synSent
	established
	resetting
	timeWait
)

// flag is a set of facts about a flow.
type flag uint32

const (
	hostReadable flag = 1 << iota // the socket may have more for us
	hostEnded                     // the poller reported an end or error: read on to it
	hostEOF                       // end of file was read; eofSeq is known
	finSent                       // our FIN was sent at eofSeq
	guestFin                      // the guest's FIN was taken
	wroteEnd                      // the host was told of the guest's FIN
	wantWritable                  // the socket is rearmed, its writability will tell
	ackNow                        // owes the guest an acknowledgement at once
	ackLater                      // owes one before ackAtMs
	rtoArmed                      // rtoAtMs holds
	timing                        // a round trip is being measured
	onReady                       // is in the list of flows to run
	onAcks                        // is in the list of flows to acknowledge
	onParked                      // is in the list of flows that wait for buffers of the guest
	windowFull                    // the guest's window ended what could be sent
	hasStash                      // some of the guest's bytes are in the stash
	probing                       // keepalive probes are out
	accepted                      // the host's peer began it
	midQueue                      // the head of the kernel's queue may be the rest of a large buffer
	hostFailed                    // the socket has failed: the end that is read is an abort
	hostUrgent                    // urgent data came: a short read does not mean an empty queue
	finLast                       // our FIN acknowledges the guest's: nothing can be missing
	kept                          // the host's kernel was asked to probe its peer
	sackOK                        // the guest may say what it holds (RFC 2018)
	hasHeld                       // it has said so
	seeks                         // the socket's peek offset is in use; peekSeq is where it stands
	hasEarly                      // data is kept that came before its turn
	ackStash                      // the guest is told that we have what is in the stash
	sentOnce                      // the host's socket has taken something
	noDelay                       // Nagle's algorithm is off at the host's socket
	timedOut                      // the timer ran out: one segment at a time until the guest answers
)

// flow is one connection. It is kept small: there may be 100 000.
type flow struct {
	// key: local is the guest's end, remote the peer's as the guest sees it.
	key   flowtable.Key
	fd    int32
	gen   uint32
	flags flag
	state state

	dupAcks   uint8
	retries   uint8
	peeks     uint8 // since something was dropped from the kernel's queue
	prompt    uint8 // messages whose data is still dropped at once, see discard
	sndShift  uint8 // scale of the windows that the guest sends
	rcvShift  uint8 // scale of the windows that we send
	gotWScale bool
	big       bigState
	mss       uint16 // towards the guest
	guestMSS  uint16 // what the guest is likely to send: for delayed acks

	// Towards the guest.
	headSeq uint32
	peekSeq uint32
	sndUna  uint32
	sndNxt  uint32
	sndMax  uint32
	recover uint32 // no fast retransmission before more than this is acknowledged
	sndWnd  uint32 // bytes
	sndWl1  uint32 // sequence number of the segment that said sndWnd
	expect  uint32 // bytes that the next peek is likely to find
	maxWnd  uint32 // the largest the guest has offered, bytes
	eofSeq  uint32 // sequence number of our FIN, with hostEOF
	bigSeq  uint32 // the first big frame: where its data begins, with bigAsked
	bigEnd  uint32 // and ends

	// From the guest.
	rcvNxt    uint32
	hostTaken uint32
	lastAcked uint32 // what the last acknowledgement sent said
	rcvEdge   uint32 // one past what the guest may send
	rcvSpan   uint32 // bytes that the last asking made the window

	// Timers, in milliseconds of the worker's clock, modulo 2^32.
	rtoAtMs  uint32 // while connecting: when that began
	rtoMs    uint32
	srttMs8  uint32 // smoothed round trip, in 1/8 ms
	rttvMs4  uint32 // its deviation, in 1/4 ms
	timeSeq  uint32
	timeAtMs uint32
	ackAtMs  uint32
	seenAtMs uint32 // when the guest was last heard
	wheelAt  int64  // what the wheel is set to, or 0

	// listAt is the place of the flow in the list of parked flows (onParked), of
	// those that wait for the guest (synSent) or for the host (connecting); it is
	// never in two of them.
	listAt uint32
}

func (f *flow) has(x flag) bool { return f.flags&x != 0 }
func (f *flow) set(x flag)      { f.flags |= x }
func (f *flow) clear(x flag)    { f.flags &^= x }

// v6 says that the guest's side is IPv6.
func (f *flow) v6() bool { return !f.key.Local.Is4() }

// segmentBytes is how much data one segment to the guest carries: no more than
// half of the largest window that it offered, so that there can be two in
// flight and an acknowledgement that is delayed for a second one is not
// delayed for ever.
func (f *flow) segmentBytes() uint32 {
	if half := f.maxWnd / 2; f.maxWnd > defaultMSS4 && half < uint32(f.mss) {
		return half
	}
	return uint32(f.mss)
}

// ackSeq is what is acknowledged to the guest: what the host's socket took, or
// also what the stash holds, but never a FIN that was not passed on.
func (f *flow) ackSeq() uint32 {
	switch {
	case !f.has(ackStash):
		return f.hostTaken
	case f.has(guestFin):
		return f.rcvNxt - 1
	}
	return f.rcvNxt
}

// inFlight is how many sequence numbers the guest has yet to acknowledge.
func (f *flow) inFlight() uint32 { return f.sndNxt - f.sndUna }

// Sequence numbers compare modulo 2^32 (RFC 9293 section 3.4).
func before(a, b uint32) bool    { return int32(a-b) < 0 }
func atOrAfter(a, b uint32) bool { return int32(a-b) >= 0 }

// slab holds the flows, in chunks that never move, so that a pointer stays good
// for as long as its flow lives.
type slab struct {
	chunks []*[chunkFlows]flow
	unused []uint32 // free indices, the last one next
	live   int
}

const chunkFlows = 1024

// at returns flow i.
func (s *slab) at(i uint32) *flow { return &s.chunks[i/chunkFlows][i%chunkFlows] }

// HasKey implements flowtable.Keys.
func (s *slab) HasKey(i uint32, k *flowtable.Key) bool { return s.at(i).key == *k }

// get takes a free flow, all zero but for its generation.
func (s *slab) get() (uint32, *flow) {
	if len(s.unused) == 0 {
		first := uint32(len(s.chunks) * chunkFlows)
		s.chunks = append(s.chunks, new([chunkFlows]flow))
		for i := uint32(chunkFlows); i > 0; i-- {
			s.unused = append(s.unused, first+i-1)
		}
	}
	i := s.unused[len(s.unused)-1]
	s.unused = s.unused[:len(s.unused)-1]
	s.live++
	f := s.at(i)
	*f = flow{gen: f.gen + 1, fd: -1}
	return i, f
}

// put frees flow i.
func (s *slab) put(i uint32) {
	f := s.at(i)
	f.state, f.flags = free, 0
	s.unused = append(s.unused, i)
	s.live--
}

// shrink gives the memory of all chunks but one back. There must be no live
// flow, and nobody who still holds an index.
func (s *slab) shrink() {
	gen := uint32(0)
	for _, c := range s.chunks {
		for j := range c {
			gen = max(gen, c[j].gen)
		}
	}
	*s = slab{}
	i, _ := s.get()
	for j := range s.chunks[0] {
		s.chunks[0][j].gen = gen + 1 // late events of the old flows find no match
	}
	s.put(i)
}
