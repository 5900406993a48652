package udp

import (
	"math"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// flag is a set of facts about a flow.
type flag uint8

const (
	inUse     flag = 1 << iota
	onReady        // is in the list of flows to run
	onParked       // is in the list of flows that wait for buffers
	isLasting      // is in the list of lasting flows
	multicast      // the remote is a group
	trains         // the last message from the host was a train
)

// flow is one pair of endpoints.
type flow struct {
	key  flowtable.Key     // Local: the guest; Remote: the peer as the guest sees it
	host hostsock.Endpoint // the peer
	from header.Addr       // with a listener: the local address that the peer had asked
	gen  uint32
	fd   int32 // its own socket, or -1
	via  int32 // its listener, or -1
	flag flag
	ttl  uint8
	frag uint8 // what the socket does with large datagrams: see fragmentation

	// How many datagrams went each way; they stay at their maximum.
	fromGuest, fromHost uint8

	single     uint16 // datagrams of this size and up do not go as trains
	era        uint8  // of the handler, when the socket was last known to be right: see Rehome
	burst      uint8  // messages that the last run found, at most hostsock.MaxMany
	expect     uint16 // bytes that the next datagram is likely to have
	next, prev uint32 // in an ageList
	usedMs     int64
}

func (f *flow) has(x flag) bool { return f.flag&x != 0 }
func (f *flow) set(x flag)      { f.flag |= x }
func (f *flow) clear(x flag)    { f.flag &^= x }

// v6 says that the guest's side is IPv6.
func (f *flow) v6() bool { return !f.key.Local.Is4() }

// What the socket of a flow does with datagrams larger than the path takes.
const (
	fragUnset = iota
	fragAllow
	fragForbid
)

// Timeouts; see the package text.
const (
	oneShotMs = 30_000
	lastingMs = 120_000
	dnsDoneMs = 2_000
	// coarseMs rounds deadlines up, so that many flows share a wake-up.
	coarseMs = 1 << 10
	portDNS  = 53
)

// isStream says that f is more than a question and an answer.
func (f *flow) isStream() bool {
	return f.fromHost > 0 && f.fromGuest > 0 && (f.fromGuest > 1 || f.fromHost > 1)
}

// deadlineMs is when f is forgotten if nothing more comes.
func (f *flow) deadlineMs() int64 {
	timeout := int64(oneShotMs)
	switch {
	case f.key.RemotePort == portDNS && f.fromHost > 0 && f.fromHost == f.fromGuest && f.fromHost < 255:
		timeout = dnsDoneMs
	case f.isStream():
		timeout = lastingMs
	}
	return (f.usedMs + timeout) | (coarseMs - 1)
}

// slab holds the flows, in chunks that never move.
type slab struct {
	chunks []*[chunkFlows]flow
	unused []uint32
	live   int
}

const chunkFlows = 128

// at returns flow i, which must exist.
func (s *slab) at(i uint32) *flow { return &s.chunks[i/chunkFlows][i%chunkFlows] }

// find returns the flow that a token was made for, or nil if it is gone.
func (s *slab) find(gen, i uint32) *flow {
	if int(i/chunkFlows) >= len(s.chunks) {
		return nil
	}
	f := s.at(i)
	if !f.has(inUse) || f.gen&0xffffff != gen {
		return nil
	}
	return f
}

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
	*f = flow{gen: f.gen + 1, fd: -1, via: -1, flag: inUse, single: math.MaxUint16}
	return i, f
}

func (s *slab) put(i uint32) {
	s.at(i).flag = 0
	s.unused = append(s.unused, i)
	s.live--
}

// ageList is a list of flows in the order of their coming, by index plus 1.
type ageList struct{ first, last uint32 }

func (l *ageList) push(s *slab, i uint32) {
	f := s.at(i)
	f.next, f.prev = 0, l.last
	if l.last != 0 {
		s.at(l.last - 1).next = i + 1
	} else {
		l.first = i + 1
	}
	l.last = i + 1
}

func (l *ageList) remove(s *slab, i uint32) {
	f := s.at(i)
	if f.prev != 0 {
		s.at(f.prev - 1).next = f.next
	} else {
		l.first = f.next
	}
	if f.next != 0 {
		s.at(f.next - 1).prev = f.prev
	} else {
		l.last = f.prev
	}
	f.next, f.prev = 0, 0
}
