package netstack

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
)

// The handler numbers of link.Token.
const (
	onTxKick uint8 = iota + 1
	onRxKick
	onTCP
	onTCPListen
	onUDP
	onUDPListen
	onPing
)

// Worker serves one queue pair. Its exported methods are safe from any
// goroutine unless they say otherwise; those marked "parked" are called inside
// Park.
type Worker struct {
	link  link.Link
	poll  *poller.Poller
	queue *framequeue.Queue
	amap  *addrmap.Map
	cfg   Config       // as it is in force
	tap   *capture.Tap // nil: nobody captures
	base  time.Time

	services services
	protos   protocols
	tx       txSide
	rx       rxSide
	in       intake

	// events is how many the last Wait returned, nextEvent the next of them to
	// handle: the poller tells of each only once, so a fault must not lose any.
	events, nextEvent int

	// onBroken is told, on the worker's thread, that the ring of the guest
	// broke; it must not block.
	onBroken func(tx bool, err error)

	// appeared says that the guest can be reached now, where it could not: its
	// ring was enabled, or its address became known. It is acted on in a turn,
	// since that is where rings may be touched.
	appeared bool

	others *others // the workers of the other queue pairs; nil: there are none

	parkMu   sync.Mutex // held by Park and Close, which take turns
	parkWant atomic.Bool
	parked   chan struct{}
	resume   chan struct{}
	closing  atomic.Bool
	done     chan struct{}

	counters Counters
}

// NewWorker makes a worker and starts it. onBroken is called, on the worker's
// thread, when the guest breaks a rule of one of its rings, which is not
// touched again until it is started anew; onBroken must not block or call the
// worker.
func NewWorker(cfg Config, onBroken func(tx bool, err error)) (*Worker, error) {
	host, err := askHost()
	if err != nil {
		return nil, err
	}
	w, err := newWorker(cfg, host, time.Now(), onBroken)
	if err == nil {
		makeProcessors(1)
		go w.run()
	}
	return w, err
}

// newWorker makes a worker that counts its time from base, and is to be run. It
// asks the system for nothing but descriptors.
func newWorker(cfg Config, host hostFacts, base time.Time, onBroken func(tx bool, err error)) (*Worker, error) {
	w := &Worker{
		base: base, onBroken: onBroken,
		parked: make(chan struct{}), resume: make(chan struct{}), done: make(chan struct{}),
	}
	w.cfg = cfg
	var err error
	if w.amap, err = addrmap.New(cfg.mapping()); err != nil {
		return nil, fmt.Errorf("address mapping: %w", err)
	}
	w.link = cfg.link()
	w.link.NowMs = time.Since(base).Milliseconds()
	if err := w.services.init(cfg, &w.link); err != nil {
		return nil, err
	}
	if w.poll, err = poller.New(); err != nil {
		return nil, err
	}
	w.queue = framequeue.New()
	if cfg.Capture != nil {
		w.tap = cfg.Capture.Tap()
		w.queue.SetTap(w.tap)
	}
	if cfg.FlushFrames > 0 {
		w.queue.SetFlushFrames(cfg.FlushFrames)
	}
	w.tx.batch = defaultTxBatch
	if cfg.TxBatchFrames > 0 {
		w.tx.batch = min(cfg.TxBatchFrames, maxTxBatch)
	}
	w.in.init()
	if err := w.protos.init(cfg, host, w); err != nil {
		w.protos.close()
		w.poll.Close()
		return nil, err
	}
	return w, nil
}

// Close ends the worker: its sockets are closed, its flows reset. The rings must
// have been detached, or their memory must stay mapped until Close returns.
// Closing again does nothing.
func (w *Worker) Close() {
	w.parkMu.Lock()
	defer w.parkMu.Unlock()
	if w.closing.Swap(true) {
		return
	}
	w.poll.Wake()
	<-w.done
	w.poll.Close() // not before: Wake must not meet a descriptor used anew
}

// Park runs f while the worker stands still between two turns and touches
// neither rings nor guest memory. It is the one way in which anyone else
// changes the worker's world. f must not call Park or Close. After Close, f runs
// as well: there is no turn any more that it could disturb.
func (w *Worker) Park(f func()) {
	w.parkMu.Lock()
	defer w.parkMu.Unlock()
	if w.closing.Load() {
		f()
		return
	}
	w.parkWant.Store(true)
	w.poll.Wake()
	<-w.parked
	f()
	w.resume <- struct{}{}
}

// run is the worker's goroutine. It is not locked to a thread: while events come
// it stays on one anyway (see package poller), and when it rests it does so
// without one.
func (w *Worker) run() {
	// A frontend can shrink the file behind guest memory at any time. Touching
	// it then is a fault that must not end the process.
	debug.SetPanicOnFault(true)
	for !w.closing.Load() {
		w.turnGuarded()
	}
	w.queue.Abandon()
	w.protos.close()
	close(w.done)
}

// turn is one turn of the worker's loop; the package text lists its steps.
func (w *Worker) turn() {
	if w.nextEvent == w.events { // else a fault has ended the last turn early
		w.nextEvent, w.events = 0, w.poll.Wait(w.timeoutMs())
	}
	w.counters.Turns++
	w.link.NowMs = time.Since(w.base).Milliseconds()
	for w.nextEvent < w.events {
		token, ready, woken := w.poll.At(w.nextEvent)
		w.nextEvent++
		if !woken {
			w.event(token, ready)
		}
	}
	if w.parkWant.Load() {
		w.protos.endBatch()
		w.queue.Flush()
		w.parkWant.Store(false)
		w.parked <- struct{}{}
		<-w.resume
		w.link.NowMs = time.Since(w.base).Milliseconds()
	}
	if w.others != nil {
		w.others.hear()
		w.others.takeMail()
	}
	w.drainTx()
	w.refillRx()
	if w.appeared {
		w.appeared = false
		w.protos.guestAppeared()
	}
	w.protos.endBatch()
	w.advance()
	w.rx.more = w.protos.run()
	if w.link.MemoryGone {
		w.memoryGone()
		return
	}
	w.queue.Flush()
	w.armRx()
	if w.others != nil {
		w.others.tell()
	}
}

// timeoutMs is how long the next wait may take.
func (w *Worker) timeoutMs() int {
	if w.tx.pending || w.rx.pending || w.rx.more || w.appeared || w.parkWant.Load() {
		return 0
	}
	if w.others != nil && w.others.hasMail() {
		return 0
	}
	next := w.protos.nextDeadlineMs()
	if s := w.services.nextDeadlineMs(); s >= 0 && (next < 0 || s < next) {
		next = s
	}
	t := -1
	if next >= 0 {
		t = int(max(next-w.link.NowMs, 0))
	}
	if (w.tx.polled || w.rx.polled) && (t < 0 || t > pollRingMs) {
		t = pollRingMs
	}
	return t
}

// pollRingMs is how often a ring is looked at that has no kick descriptor.
const pollRingMs = 1

// event hands an event to whom it belongs.
func (w *Worker) event(token uint64, ready poller.Readiness) {
	switch h, _, _ := link.SplitToken(token); h {
	case onTxKick:
		w.tx.pending = true
	case onRxKick:
		w.rx.pending = true
	default:
		w.protos.event(h, token, ready)
	}
}

// advance runs the timers that are due.
func (w *Worker) advance() {
	w.protos.advance(w.link.NowMs)
	if d := w.services.nextDeadlineMs(); d >= 0 && d <= w.link.NowMs {
		w.services.advance(w.queue, &w.link)
	}
	if w.link.WantGuest {
		w.link.WantGuest = false
		w.services.findGuest(w.queue, &w.link)
	}
}

// learnGuest notes under which addresses the guest sends.
func (w *Worker) learnGuest(p *header.Packet) {
	if p.SrcMAC != w.link.GuestMAC && !p.SrcMAC.IsMulticast() && p.SrcMAC != w.link.OurMAC {
		first := w.link.GuestMAC == header.Broadcast
		w.link.GuestMAC = p.SrcMAC
		if first {
			w.services.guestFound(&w.link)
			w.appeared = true
		}
	}
}

// learnAddr notes the guest's IP address.
func (w *Worker) learnAddr(p *header.Packet) {
	switch src := &p.Src; {
	case !p.V6:
		if *src != w.link.Guest4 && !src.IsMartian() && !src.IsMulticast() && !src.IsLinkLocal() {
			w.link.Guest4 = *src
		}
	case src.IsLinkLocal():
		w.link.GuestLinkLocal = *src
	case src.IsMartian() || src.IsMulticast():
	default:
		w.services.heard6 = true
		if *src != w.link.Guest6 {
			first := w.link.Guest6 == header.Addr{}
			w.link.Guest6 = *src
			w.appeared = w.appeared || first
		}
	}
}
