package netstack

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

const (
	// defaultTxBatch is Config.TxBatchFrames where that is 0, maxTxBatch bounds
	// it.
	defaultTxBatch = 64
	maxTxBatch     = 256
	// txTurn bounds the frames of a turn, and what link.ExtraSends says beyond
	// them, so that the other direction has its share, and Park its turn.
	txTurn = 256
)

// txSide is the ring on which the guest transmits.
type txSide struct {
	ring    TxRing
	caller  Caller
	kickFD  int
	enabled bool
	pending bool // there may be frames
	polled  bool // no kick descriptor: look at times
	batch   int  // frames taken at once
	tokens  [maxTxBatch]uint32
}

// rxSide is the descriptor of the ring on which the guest receives; the ring
// itself belongs to the frame queue.
type rxSide struct {
	kickFD  int
	pending bool // there may be new buffers
	polled  bool
	more    bool // flows have data left from this turn
	broken  bool
}

// SetFeatures tells which virtio features the driver took. A driver says that
// anew when it starts, and may be another one then. Parked.
func (w *Worker) SetFeatures(features uint64) {
	w.link.Features = features
	w.protos.forgetGuest()
}

// AttachTx starts transmission from the guest; what is on the ring already is
// seen at once. The ring is disabled until EnableTx. Parked.
func (w *Worker) AttachTx(t Tx) error {
	w.DetachTx()
	w.tx.ring, w.tx.caller, w.tx.kickFD, w.tx.polled = t.Ring, t.Caller, t.KickFD, t.KickFD < 0
	w.tx.pending = true
	if t.KickFD >= 0 {
		if err := w.poll.Add(t.KickFD, link.Token(onTxKick, 0, 0), poller.Readable); err != nil {
			return fmt.Errorf("watch the transmit ring's kick: %w", err)
		}
	}
	return nil
}

// DetachTx ends it. No chain is held across turns, so none has to be given
// back. Parked.
func (w *Worker) DetachTx() {
	if w.tx.ring != nil && w.tx.kickFD >= 0 {
		w.poll.Remove(w.tx.kickFD)
	}
	w.tx.ring, w.tx.caller, w.tx.pending, w.tx.polled, w.tx.enabled = nil, nil, false, false, false
}

// EnableTx says whether frames from the guest go anywhere; while not, they are
// dropped. Parked.
func (w *Worker) EnableTx(on bool) {
	w.tx.enabled = on
	w.tx.pending = w.tx.ring != nil && on
}

// AttachRx gives the guest's receive ring. It is disabled until EnableRx.
// Parked.
func (w *Worker) AttachRx(r Rx) error {
	w.DetachRx()
	w.queue.Attach(r.Ring, r.Caller, framequeue.Format{Mergeable: r.Mergeable})
	w.rx.kickFD, w.rx.polled, w.rx.broken = r.KickFD, r.KickFD < 0, false
	if r.KickFD >= 0 {
		if err := w.poll.Add(r.KickFD, link.Token(onRxKick, 0, 0), poller.Readable); err != nil {
			return fmt.Errorf("watch the receive ring's kick: %w", err)
		}
	}
	return nil
}

// DetachRx takes the receive ring away; flows wait until there is one again.
// Parked.
func (w *Worker) DetachRx() {
	if w.queue.HasRing() && w.rx.kickFD >= 0 {
		w.poll.Remove(w.rx.kickFD)
	}
	w.queue.Detach()
	w.queue.SetEnabled(false)
	w.rx = rxSide{kickFD: -1}
}

// EnableRx says whether frames may go to the guest. Parked.
func (w *Worker) EnableRx(on bool) {
	w.queue.SetEnabled(on)
	if on && w.queue.Attached() {
		w.rx.pending = true
		if w.others == nil || w.others.self == 0 {
			w.services.guestAttached(&w.link)
		}
		w.appeared = true
	}
}

// ForgetGuest is called when the driver is gone: the next one may be another
// guest. Parked.
func (w *Worker) ForgetGuest() {
	w.link.GuestMAC = header.Broadcast
	w.services.heard6 = false
	w.protos.forgetGuest()
}

// drainTx takes what the guest transmitted, up to a turn's share.
func (w *Worker) drainTx() {
	if w.tx.polled && w.tx.ring != nil {
		w.tx.pending = true
	}
	if !w.tx.pending || w.tx.ring == nil {
		return
	}
	w.tx.ring.SuppressKicks()
	w.link.ExtraSends = 0
	for taken := 0; taken+w.link.ExtraSends < txTurn; {
		n, err := w.txBatch()
		taken += n
		if err == nil {
			continue
		}
		if err != virtqueue.ErrEmpty {
			w.breakTx(err)
			return
		}
		w.tx.pending = w.tx.ring.ArmKicks()
		return
	}
}

// txBatch handles a batch of frames and gives their buffers back. It returns
// how many there were, and why it ended early, if it did.
func (w *Worker) txBatch() (n int, err error) {
	w.in.vecs = w.in.vecs[:0]
	for n < w.tx.batch && w.link.ExtraSends < txTurn {
		before := len(w.in.vecs)
		var token uint32
		w.in.vecs, token, err = w.tx.ring.Take(w.in.vecs)
		if err != nil {
			break
		}
		w.tx.tokens[n] = token
		n++
		if w.tx.enabled {
			w.frameFromGuest(w.in.vecs[before:])
		} else {
			w.counters.TxDisabled++
		}
	}
	if n == 0 {
		return 0, err
	}
	w.protos.endBatch()
	for _, token := range w.tx.tokens[:n] {
		w.tx.ring.Return(token, 0)
	}
	if w.tx.ring.Publish() {
		w.tx.caller.Call()
	}
	return n, err
}

// refillRx lets waiting frames and flows go on when the guest may have added
// buffers.
func (w *Worker) refillRx() {
	if w.rx.polled && w.queue.Starved() {
		w.rx.pending = true
	}
	if !w.rx.pending {
		return
	}
	w.rx.pending = false
	if w.queue.Starved() && w.queue.Refill() {
		w.protos.refilled()
	}
}

// armRx asks for a kick if something waits for buffers.
func (w *Worker) armRx() {
	if err := w.queue.Err(); err != nil && !w.rx.broken {
		w.rx.broken = true
		w.queue.SetEnabled(false)
		w.counters.RxBroken++
		w.onBroken(false, err)
		return
	}
	if w.queue.Starved() && w.queue.Arm() {
		w.rx.pending = true
	}
}

// breakTx stops a transmit ring whose driver broke a rule.
func (w *Worker) breakTx(err error) {
	w.counters.TxBroken++
	w.DetachTx()
	w.onBroken(true, err)
}

// turnGuarded runs a turn and survives a fault in guest memory.
func (w *Worker) turnGuarded() {
	defer func() {
		if r := recover(); r != nil {
			w.fault(r)
		}
	}()
	w.turn()
}

// memoryFault is what a runtime error about memory looks like.
type memoryFault interface {
	runtime.Error
	Addr() uintptr
}

// ErrGuestMemory says that guest memory vanished while a ring was in use.
var ErrGuestMemory = errors.New("guest memory is gone (its file was truncated)")

// fault handles a panic of a turn: one by a fault in guest memory stops both
// rings, any other goes on.
func (w *Worker) fault(r any) {
	if _, ok := r.(memoryFault); !ok {
		panic(r)
	}
	w.memoryGone()
}

// memoryGone takes both rings away, and lets the protocols sort out what they
// were about.
func (w *Worker) memoryGone() {
	w.counters.Faults++
	w.link.MemoryGone = false
	if w.tx.ring != nil {
		w.DetachTx()
		w.onBroken(true, ErrGuestMemory)
	}
	if w.queue.HasRing() {
		if w.rx.kickFD >= 0 {
			w.poll.Remove(w.rx.kickFD)
		}
		w.queue.Abandon()
		w.queue.SetEnabled(false)
		w.rx = rxSide{kickFD: -1}
		w.onBroken(false, ErrGuestMemory)
	}
	w.protos.fault()
	w.rx.more = true // to go on with at once
}
