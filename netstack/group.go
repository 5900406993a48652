package netstack

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Group serves the queue pairs of one device, each with a [Worker] of its own
// that is made when the pair is first used. As long as only the first pair is
// used, its worker knows of no others and does nothing for them.
//
// The methods are safe from any goroutine; those marked "parked" are called
// inside Park. docs/architecture.md tells who owns what.
type Group struct {
	cfg      Config
	host     hostFacts
	maxPairs int
	onBroken func(pair int, tx bool, err error)
	base     time.Time
	features uint64
	first    *Worker

	parkMu sync.Mutex // held by Park and Close

	// workers, by pair, and active, those of them whose guest's side can be
	// reached, change while all are parked.
	workers []*Worker
	active  []uint8
	unborn  []*Worker // made in this Park, to be started behind it

	directory *directory
	facts     sharedFacts
}

// MaxPairs is the largest number of queue pairs of a Group.
const MaxPairs = 64

// NewGroup makes a group for up to maxPairs queue pairs, and starts the worker of
// the first one. What has to be read from the system is read here, so that the
// process may give that up before the other workers are made. onBroken is called
// as that of NewWorker.
func NewGroup(cfg Config, maxPairs int, onBroken func(pair int, tx bool, err error)) (*Group, error) {
	if maxPairs < 1 || maxPairs > MaxPairs {
		return nil, fmt.Errorf("%d queue pairs, want 1 to %d", maxPairs, MaxPairs)
	}
	host, err := askHost()
	if err != nil {
		return nil, err
	}
	g := &Group{cfg: cfg, host: host, maxPairs: maxPairs, onBroken: onBroken, base: time.Now()}
	w, err := newWorker(cfg, host, g.base, g.broken(0))
	if err != nil {
		return nil, err
	}
	g.first, g.workers = w, []*Worker{w}
	g.cfg.Forwards, g.cfg.Sockets = nil, nil // the first worker has them
	makeProcessors(1)
	go w.run()
	return g, nil
}

func (g *Group) broken(pair int) func(tx bool, err error) {
	return func(tx bool, err error) { g.onBroken(pair, tx, err) }
}

// Park runs f while no worker touches rings or guest memory: Worker.Park for all
// of them. f must not call Park or Close.
func (g *Group) Park(f func()) {
	g.parkMu.Lock()
	defer g.parkMu.Unlock()
	g.park(f)
}

func (g *Group) park(f func()) {
	g.parkFrom(0, f)
	for _, w := range g.unborn {
		go w.run()
	}
	g.unborn = nil
}

func (g *Group) parkFrom(pair int, f func()) {
	if pair < len(g.workers) {
		g.workers[pair].Park(func() { g.parkFrom(pair+1, f) })
		return
	}
	f()
	if g.directory != nil {
		g.settle()
	}
}

// Close ends all workers. See Worker.Close.
func (g *Group) Close() {
	g.parkMu.Lock()
	defer g.parkMu.Unlock()
	if g.directory != nil {
		g.park(func() {
			for _, w := range g.workers {
				w.others.close()
			}
		})
	}
	for _, w := range g.workers {
		w.Close()
	}
}

// close drops the mail, what is in it and what is still to come.
func (o *others) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	for _, m := range o.unread() {
		m.drop()
	}
	for k := range o.awaited {
		o.taken(k) // what waits cannot be posted any more
	}
}

// unread takes all mail away that was not handled, also what a fault has kept this
// worker from. It is parked.
func (o *others) unread() []message {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := append(slices.Clone(o.reading[o.read:]), o.mail...)
	o.mail, o.mailBytes, o.reading, o.read = nil, 0, nil, 0
	o.some.Store(false)
	return all
}

// worker returns that of a pair, which it makes if need be. Parked.
func (g *Group) worker(pair int) (*Worker, error) {
	if pair < 0 || pair >= g.maxPairs {
		return nil, fmt.Errorf("queue pair %d, there are %d", pair, g.maxPairs)
	}
	for len(g.workers) <= pair {
		w, err := newWorker(g.cfg, g.host, g.base, g.broken(len(g.workers)))
		if err != nil {
			return nil, fmt.Errorf("worker of queue pair %d: %w", len(g.workers), err)
		}
		w.link.Features = g.features
		g.join(w)
		g.unborn = append(g.unborn, w)
		makeProcessors(len(g.workers))
	}
	return g.workers[pair], nil
}

// makeProcessors gives the Go scheduler a processor for each worker, and one for
// everything else: a busy worker keeps its own while it waits (package poller), so
// that with fewer of them workers would wait for each other's waits. They are
// never taken back.
func makeProcessors(workers int) {
	if runtime.GOMAXPROCS(0) < workers+1 {
		runtime.GOMAXPROCS(workers + 1)
	}
}

// join makes w one of the workers. With the second one, the first one begins to
// know of others.
func (g *Group) join(w *Worker) {
	first := g.first
	if g.directory == nil {
		g.directory = newDirectory()
		g.facts.facts = first.guestFacts()
		g.facts.version.Store(1)
		g.introduce(first, 0)
		first.protos.eachFlow(first.others.Own)
	}
	g.workers = append(g.workers, w)
	g.introduce(w, len(g.workers)-1)
	w.setGuestFacts(g.facts.facts)
	if w.protos.udp != nil {
		w.protos.udp.Borrow(first.protos.udp)
	}
	if w.protos.tcp != nil {
		w.protos.tcp.Follow(first.protos.tcp)
	}
	for _, w := range g.workers {
		w.protos.share(len(g.workers))
	}
}

func (g *Group) introduce(w *Worker, pair int) {
	w.others = &others{
		w: w, self: uint8(pair), group: g, awaited: map[flowtable.Key]*awaited{},
		known: g.facts.facts, version: 1,
	}
	w.link.Others = w.others
}

// settle sees to it, while all workers are parked, that no flow stays where the
// guest cannot be reached: those of a pair that is disabled, or gone, go on at
// the first one.
func (g *Group) settle() {
	g.active = g.active[:0]
	for pair, w := range g.workers {
		if w.queue.Attached() {
			g.active = append(g.active, uint8(pair))
			continue
		}
		if pair > 0 {
			w.others.evacuate(g.first.others)
		}
	}
}

// reachesGuest reports whether flows may come to a worker: the guest receives on its
// queue pair, or there is no better place than the first. A guest may send on a pair
// on which it does not receive.
func (g *Group) reachesGuest(worker uint8) bool {
	return slices.Contains(g.active, worker) || worker == 0 && len(g.active) == 0
}

// evacuate moves all flows to another worker, with what is on its way here. Both
// are parked. Frames that wait for a flow are answered by its owner.
func (o *others) evacuate(to *others) {
	moving := func(k flowtable.Key) {
		to.counters.Evacuated++
		to.Own(k, false)
	}
	for _, m := range o.unread() {
		switch m.kind {
		case giveFlow:
			moving(m.key)
			to.attach(&m)
			for _, b := range o.taken(m.key) {
				o.forwardCopy(to.self, b)
			}
		case takeArrival:
			if !o.post(to.self, m) {
				m.drop()
			}
		default:
			o.post(o.self, m)
		}
	}
	if t := o.w.protos.tcp; t != nil {
		t.MoveAll(to.w.protos.tcp, moving)
	}
	if u := o.w.protos.udp; u != nil {
		u.MoveAll(to.w.protos.udp, moving)
	}
}

// SetFeatures tells which virtio features the driver took. Parked.
func (g *Group) SetFeatures(features uint64) {
	g.features = features
	for _, w := range g.workers {
		w.SetFeatures(features)
	}
}

// AttachRx is Worker.AttachRx for a queue pair. Parked.
func (g *Group) AttachRx(pair int, r Rx) error {
	w, err := g.worker(pair)
	if err != nil {
		return err
	}
	return w.AttachRx(r)
}

// AttachTx is Worker.AttachTx for a queue pair. Parked.
func (g *Group) AttachTx(pair int, t Tx) error {
	w, err := g.worker(pair)
	if err != nil {
		return err
	}
	return w.AttachTx(t)
}

// DetachRx is Worker.DetachRx for a queue pair. Parked.
func (g *Group) DetachRx(pair int) { g.with(pair, (*Worker).DetachRx) }

// DetachTx is Worker.DetachTx for a queue pair. Parked.
func (g *Group) DetachTx(pair int) { g.with(pair, (*Worker).DetachTx) }

// EnableRx is Worker.EnableRx for a queue pair. Parked.
func (g *Group) EnableRx(pair int, on bool) { g.with(pair, func(w *Worker) { w.EnableRx(on) }) }

// EnableTx is Worker.EnableTx for a queue pair. Parked.
func (g *Group) EnableTx(pair int, on bool) { g.with(pair, func(w *Worker) { w.EnableTx(on) }) }

// with calls f for the worker of a pair, if it has one.
func (g *Group) with(pair int, f func(w *Worker)) {
	if pair < len(g.workers) {
		f(g.workers[pair])
	}
}

// ForgetGuest is Worker.ForgetGuest for all. Parked.
func (g *Group) ForgetGuest() {
	for _, w := range g.workers {
		w.ForgetGuest()
	}
	if g.directory == nil {
		return
	}
	g.facts.facts.mac, g.facts.facts.heard6 = header.Broadcast, false
	version := g.facts.version.Add(1)
	for _, w := range g.workers {
		w.others.known, w.others.version = g.facts.facts, version
		w.setGuestFacts(g.facts.facts)
	}
}

// Follow is Worker.Follow for all. Parked.
func (g *Group) Follow(l Live) error {
	for _, w := range g.workers {
		if err := w.Follow(l); err != nil {
			return err // at the first one: they are alike
		}
	}
	g.cfg = g.cfg.with(l)
	return nil
}

// Forwards returns the forwarding rules as they were met.
func (g *Group) Forwards() []Forward { return g.first.Forwards() }

// Snapshots returns the counters of each worker. It parks them for a moment.
func (g *Group) Snapshots() (all []Snapshot) {
	g.Park(func() {
		for _, w := range g.workers {
			all = append(all, w.snapshot())
		}
	})
	return all
}
