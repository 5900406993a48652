// Package reassembly puts IP datagrams together from the fragments that a guest
// sends (RFC 791 section 3.2, RFC 8200 section 4.5).
//
// Memory is bounded: a fixed number of datagrams can be under way, and the
// oldest makes room for a new one. A datagram that is not whole after 30
// seconds is given up. A fragment that comes twice, the same bytes at the same
// place, counts once (RFC 8200 section 4.5). Fragments that overlap in any other
// way condemn their datagram (RFC 5722 section 4), for IPv4 as well: no honest
// sender makes them.
package reassembly

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

const (
	// timeoutMs is what Linux uses; RFC 8200 section 4.5 asks for 60 s, RFC
	// 1122 section 3.3.2 for 60 to 120 s, as an upper bound of the delay in the
	// network: here fragments cross one memory copy.
	timeoutMs = 30_000
	// frontBytes is the room in front of a datagram for rebuilt headers.
	frontBytes = header.VnetLen + header.EthLen + header.IPv6Len
	// maxDatagram is the largest datagram without its IP header.
	maxDatagram = 65535
	unitBytes   = 8
	// DefaultMax is how many datagrams are under way at most: about 4 MiB.
	DefaultMax = 64
)

// Counters count since the Reassembler was made.
type Counters struct {
	Fragments uint64
	Whole     uint64 // datagrams completed
	Duplicate uint64 // fragments that were here already
	Invalid   uint64 // fragments dropped: overlap, contradicting ends, or not parsable as a whole
	Expired   uint64 // datagrams given up by the timer
	Evicted   uint64 // datagrams given up to make room
}

type key struct {
	src, dst header.Addr
	id       uint32
	proto    uint8 // IPv4 only: RFC 8200 identifies without it
}

type state uint8

const (
	idle     state = iota
	open           // collecting
	poisoned       // overlap was seen: the rest of it is dropped too
	lent           // whole, and with the caller until EndBatch
)

// set is one datagram under way.
type set struct {
	key      key
	state    state
	first    bool // the fragment with offset 0 is here, and head is its header
	endKnown bool
	got, end int // bytes here, and in all
	startMs  int64
	head     header.Packet
	have     bitmap // units that are here
	begins   bitmap // units with which a fragment begins
	buf      []byte // frontBytes, then the datagram
	same     []iov.Vec
	frame    link.Frame
	vecs     [1]iov.Vec
}

// Reassembler belongs to one goroutine.
type Reassembler struct {
	sets     []*set
	max      int
	lent     int
	open     int // open and poisoned ones
	Counters Counters
}

// New returns a Reassembler for up to maxDatagrams at a time; 0 takes
// DefaultMax.
func New(maxDatagrams int) *Reassembler {
	if maxDatagrams <= 0 {
		maxDatagrams = DefaultMax
	}
	return &Reassembler{max: maxDatagrams}
}

// Add takes a fragment (Packet.IsFragment). If it completes a datagram, Add
// returns that as a frame with plain headers, as if it had come whole; else
// nil. The frame is valid until EndBatch and private memory throughout.
func (r *Reassembler) Add(f *link.Frame, nowMs int64) *link.Frame {
	r.Counters.Fragments++
	p := &f.Packet
	k := key{src: p.Src, dst: p.Dst, id: p.FragID}
	limit := maxDatagram
	if !p.V6 {
		k.proto = p.Proto
		limit -= header.IPv4Len
	}
	off, n := int(p.FragOff), p.End-p.L4
	if n <= 0 || off+n > limit {
		r.Counters.Invalid++
		return nil
	}
	s := r.find(&k)
	if s == nil {
		if s = r.claim(); s == nil {
			r.Counters.Evicted++
			return nil
		}
		s.start(k, nowMs)
		r.open++
	}
	if s.state == open && s.repeats(f, off, n) {
		r.Counters.Duplicate++
		return nil
	}
	if s.state == poisoned || !s.add(f, off, n) {
		s.state = poisoned
		r.Counters.Invalid++
		return nil
	}
	if !s.first || !s.endKnown || s.got != s.end {
		return nil
	}
	r.open--
	if !s.finish() {
		s.state = idle
		r.Counters.Invalid++
		return nil
	}
	r.Counters.Whole++
	s.state = lent
	r.lent++
	return &s.frame
}

// EndBatch ends the life of the frames that Add has returned.
func (r *Reassembler) EndBatch() {
	if r.lent == 0 {
		return
	}
	for _, s := range r.sets {
		if s.state == lent {
			s.state = idle
		}
	}
	r.lent = 0
}

// NextDeadlineMs returns when Advance has something to do, or -1.
func (r *Reassembler) NextDeadlineMs() int64 {
	if r.open == 0 {
		return -1
	}
	next := int64(-1)
	for _, s := range r.sets {
		if s.waiting() && (next < 0 || s.startMs+timeoutMs < next) {
			next = s.startMs + timeoutMs
		}
	}
	return next
}

// Advance gives up what is too old, and all memory when nothing is left.
func (r *Reassembler) Advance(nowMs int64) {
	for _, s := range r.sets {
		if s.waiting() && nowMs >= s.startMs+timeoutMs {
			s.state = idle
			r.open--
			r.Counters.Expired++
		}
	}
	if r.open == 0 && r.lent == 0 {
		r.sets = nil
	}
}

func (r *Reassembler) find(k *key) *set {
	for _, s := range r.sets {
		if s.key.id == k.id && s.waiting() && s.key == *k {
			return s
		}
	}
	return nil
}

// claim returns a set that is free, or new, or taken from the oldest datagram
// under way; nil if all are lent.
func (r *Reassembler) claim() *set {
	var oldest *set
	for _, s := range r.sets {
		switch {
		case s.state == idle:
			return s
		case s.waiting() && (oldest == nil || s.startMs < oldest.startMs):
			oldest = s
		}
	}
	if len(r.sets) < r.max {
		s := &set{buf: make([]byte, frontBytes+maxDatagram)}
		r.sets = append(r.sets, s)
		return s
	}
	if oldest != nil {
		r.open--
		r.Counters.Evicted++
	}
	return oldest
}
