package netstack

import (
	"sync"
	"sync/atomic"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/tcp"
	"github.com/vhost-net-go/vhost-net-go/netstack/udp"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// others is a worker's view of the workers of the other queue pairs, and the
// mail that comes from them. It implements link.Others.
//
// A frame whose flow the directory has at another worker is copied and kept; the
// owner is asked for the flow (want), and sends it (give), or has not got it any
// more (none). Then the frames that were kept are handled, in their order, before
// any that come later. Nobody waits for anything: in between both workers do
// their other work.
//
// The directory has the new owner before the flow is there, so that a third worker
// may ask there too early: its wish waits with the frames.
type others struct {
	w     *Worker
	self  uint8
	group *Group

	mu        sync.Mutex
	mail      []message
	mailBytes int
	closed    bool
	some      atomic.Bool // there is mail
	reading   []message   // the slice being gone through
	read      int         // how many of it have been

	// Of the worker's thread.
	awaited   map[flowtable.Key]*awaited
	keptBytes int
	known     guestFacts // as of the last exchange
	version   uint64
	counters  MoveCounters
}

// MoveCounters count what the workers of several queue pairs do for each other.
type MoveCounters struct {
	Moved     uint64 // flows that came here because the guest sends them here
	Evacuated uint64 // flows that came here because their queue pair was disabled
	Placed    uint64 // connections of the host's side that were accepted elsewhere
	Kept      uint64 // frames that waited for their flow
	Forwarded uint64 // frames that came by another queue pair than their flow's
	Dropped   uint64 // frames for want of room
}

// awaited is what waits for a flow: frames, connections of the host's side that
// have its name, and the workers that want it next.
type awaited struct {
	frames   []keptFrame
	arrivals []any
	wants    []uint8
}

// keptFrame is a copy of a frame, or of a datagram that came in fragments.
type keptFrame struct {
	bytes       []byte // vnet header in front
	reassembled bool
}

type messageKind uint8

const (
	wantFlow    messageKind = iota // key is asked for by from
	giveFlow                       // a flow comes
	noFlow                         // key does not come: it has ended, or there is no way to the guest there
	takeFrame                      // a frame of a flow that is bound here
	takeArrival                    // a connection of the host's side
)

type message struct {
	kind    messageKind
	from    uint8
	key     flowtable.Key
	tcp     *tcp.Moving
	udp     *udp.Moving
	frame   keptFrame
	arrival any
}

const (
	// maxMailBytes bounds the frames in a worker's mail, maxKeptBytes those that
	// wait for flows, maxAwaited the flows waited for, and so the other messages:
	// there is a question and an answer for each. Connections are bounded by
	// descriptors.
	maxMailBytes = 4 << 20
	maxKeptBytes = 4 << 20
	maxAwaited   = 4096
	// messageBytes is what a frame takes beside its bytes: a message, at most.
	messageBytes = 256
	// idleMessages is the room for mail that is kept when there is none.
	idleMessages = 256
)

// cost is how much of the bounds above a frame takes.
func (f *keptFrame) cost() int { return messageBytes + len(f.bytes) }

// post puts a message into the mail of worker to.
func (o *others) post(to uint8, m message) bool {
	p := o.group.workers[to].others
	cost := 0
	if m.kind == takeFrame {
		cost = m.frame.cost()
	}
	p.mu.Lock()
	if p.closed || cost > 0 && p.mailBytes+cost > maxMailBytes {
		p.mu.Unlock()
		return false
	}
	p.mail = append(p.mail, m)
	p.mailBytes += cost
	wake := !p.some.Swap(true)
	p.mu.Unlock()
	if wake {
		p.w.poll.Wake()
	}
	return true
}

// wake lets the worker make a turn. It may have ended: workers end one by one, and
// all of them are closed to each other before the first one does.
func (o *others) wake() {
	o.mu.Lock()
	closed := o.closed
	o.mu.Unlock()
	if !closed {
		o.w.poll.Wake()
	}
}

// Elsewhere implements link.Others.
func (o *others) Elsewhere(k flowtable.Key, fr *link.Frame) bool {
	if a := o.awaited[k]; a != nil {
		o.keep(a, fr)
		return true
	}
	has := o.owner(&k)
	switch {
	case has.worker == o.self:
		return false
	case fr == nil:
	case has.bound || !o.group.reachesGuest(o.self):
		o.forward(has.worker, fr)
	case len(o.awaited) >= maxAwaited:
		o.counters.Dropped++
	default:
		a := &awaited{}
		o.awaited[k] = a
		o.keep(a, fr)
		o.post(has.worker, message{kind: wantFlow, from: o.self, key: k})
	}
	return true
}

// owner returns which worker has the flow k, or is to have it if nobody does: this
// one, if the guest can be reached from here.
func (o *others) owner(k *flowtable.Key) owner {
	g := o.group
	if g.reachesGuest(o.self) {
		return g.directory.claim(k, o.self)
	}
	has, ok := g.directory.find(k)
	if !ok && len(g.active) > 0 {
		has.worker = g.active[0]
	}
	return has
}

// keep adds a copy of fr to the frames that wait.
func (o *others) keep(a *awaited, fr *link.Frame) {
	if fr == nil {
		return
	}
	if o.keptBytes+messageBytes+header.VnetLen+fr.Bytes > maxKeptBytes {
		o.counters.Dropped++
		return
	}
	b := copyFrame(fr)
	o.keptBytes += b.cost()
	o.counters.Kept++
	a.frames = append(a.frames, b)
}

func copyFrame(fr *link.Frame) keptFrame {
	b := make([]byte, header.VnetLen+fr.Bytes)
	return keptFrame{bytes: b[:iov.CopyOut(b, fr.Vecs, 0)], reassembled: fr.Packet.Reassembled}
}

func (o *others) forward(to uint8, fr *link.Frame) { o.forwardCopy(to, copyFrame(fr)) }

func (o *others) forwardCopy(to uint8, f keptFrame) {
	if o.post(to, message{kind: takeFrame, frame: f}) {
		o.counters.Forwarded++
	} else {
		o.counters.Dropped++
	}
}

// Own implements link.Others.
func (o *others) Own(k flowtable.Key, bound bool) {
	o.group.directory.set(&k, owner{worker: o.self, bound: bound})
}

// Disown implements link.Others.
func (o *others) Disown(k flowtable.Key) { o.group.directory.drop(&k, o.self) }

// ToFirst implements link.Others.
func (o *others) ToFirst(fr *link.Frame) bool {
	if o.self == 0 {
		return false
	}
	o.forward(0, fr)
	return true
}

// Place implements link.Others: a connection goes to who has one of its name, so
// that its end is known there, or to one of those whose guest's side is there.
func (o *others) Place(k flowtable.Key, c any) bool {
	m := message{kind: takeArrival, key: k, arrival: c}
	if _, ok := o.group.directory.find(&k); !ok && len(o.group.active) > 0 {
		to := o.group.active[o.group.directory.hash(&k)%uint64(len(o.group.active))]
		if to != o.self {
			return o.post(to, m)
		}
	}
	return o.passOn(m)
}

// passOn lets a connection of the host's side go where there is something of its
// name, or wait here for that. It reports false if it is to begin here.
func (o *others) passOn(m message) bool {
	if a := o.awaited[m.key]; a != nil {
		a.arrivals = append(a.arrivals, m.arrival)
		return true
	}
	to := o.owner(&m.key).worker
	return to != o.self && o.post(to, m)
}

// hasMail reports whether there is something to read. What came while a fault kept
// this worker from its mail has woken it already, and does so only once.
func (o *others) hasMail() bool { return o.read < len(o.reading) || o.some.Load() }

// takeMail handles what the others have sent.
func (o *others) takeMail() {
	o.w.in.reassembled = false // a fault may have left it
	if o.read == len(o.reading) {
		if !o.some.Load() {
			return
		}
		o.mu.Lock()
		o.mail, o.reading = o.reading[:0], o.mail
		o.mailBytes = 0
		o.some.Store(false)
		o.mu.Unlock()
		o.read = 0
	}
	for o.read < len(o.reading) {
		o.read++ // before, since a fault in guest memory may end this turn
		o.handle(&o.reading[o.read-1])
	}
	o.w.protos.endBatch()
	clear(o.reading) // the frames are done with
	o.reading, o.read = o.reading[:0], 0
	if cap(o.reading) > idleMessages {
		o.reading = nil // much has come at once, which is rare
	}
}

func (o *others) handle(m *message) {
	switch m.kind {
	case wantFlow:
		o.wanted(m)
	case giveFlow:
		o.counters.Moved++
		o.Own(m.key, false) // before it can end
		o.attach(m)
		o.replay(m.key)
	case noFlow:
		o.replay(m.key)
	case takeFrame:
		o.take(m.frame)
	case takeArrival:
		if !o.passOn(*m) {
			o.counters.Placed++
			o.w.protos.tcp.HandedOver(m.arrival)
		}
	}
}

// wanted answers a worker that wants a flow, once the flow is here if it is on
// its way. This worker also waits for flows that have been given on since, or are
// gone; who asks it for one of these must not wait for it in turn.
func (o *others) wanted(m *message) {
	if a := o.awaited[m.key]; a != nil {
		if has, ok := o.group.directory.find(&m.key); ok && has.worker == o.self {
			a.wants = append(a.wants, m.from)
			return
		}
	}
	o.give(m)
}

// give sends a flow to the worker that wants it.
func (o *others) give(m *message) {
	answer := message{kind: noFlow, from: o.self, key: m.key}
	if o.group.reachesGuest(m.from) {
		if answer.tcp, answer.udp = o.detach(&m.key); answer.tcp != nil || answer.udp != nil {
			answer.kind = giveFlow
			o.group.directory.set(&m.key, owner{worker: m.from})
		} else {
			o.Disown(m.key)
		}
	}
	if !o.post(m.from, answer) {
		answer.drop()
	}
}

func (o *others) detach(k *flowtable.Key) (t *tcp.Moving, u *udp.Moving) {
	switch p := &o.w.protos; {
	case k.Proto == header.ProtoTCP && p.tcp != nil:
		t = p.tcp.Detach(k)
	case k.Proto == header.ProtoUDP && p.udp != nil:
		u = p.udp.Detach(k)
	}
	return t, u
}

func (o *others) attach(m *message) {
	if m.tcp != nil {
		o.w.protos.tcp.Attach(m.tcp)
	}
	if m.udp != nil {
		o.w.protos.udp.Attach(m.udp)
	}
}

func (o *others) take(f keptFrame) {
	o.w.in.reassembled = f.reassembled
	o.w.takeFrame([]iov.Vec{iov.Of(f.bytes)}, len(f.bytes))
	o.w.in.reassembled = false
}

// replay handles the frames that have waited for the flow k.
func (o *others) replay(k flowtable.Key) {
	for _, b := range o.taken(k) {
		o.take(b)
	}
}

// taken ends the wait for the flow k and returns the frames that waited. None of
// them counts as kept any more, and what else waited has its turn behind them, also
// if a fault ends what is done with them.
func (o *others) taken(k flowtable.Key) []keptFrame {
	a := o.awaited[k]
	if a == nil {
		return nil
	}
	delete(o.awaited, k)
	for _, b := range a.frames {
		o.keptBytes -= b.cost()
	}
	for _, c := range a.arrivals {
		if m := (message{kind: takeArrival, key: k, arrival: c}); !o.post(o.self, m) {
			m.drop()
		}
	}
	for _, from := range a.wants {
		o.post(o.self, message{kind: wantFlow, from: from, key: k})
	}
	return a.frames
}

// drop ends what a message brings that nobody will read.
func (m *message) drop() {
	if m.tcp != nil {
		m.tcp.Drop()
	}
	if m.udp != nil {
		m.udp.Drop()
	}
	if m.arrival != nil {
		tcp.DropHandedOver(m.arrival)
	}
}
