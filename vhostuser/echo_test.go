package vhostuser_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// echoDevice gives each frame that is sent to it back: what comes from queue
// 2n+1 goes to queue 2n. With drop it only drains. It has one worker.
type echoDevice struct {
	features uint64
	drop     bool

	mu     sync.Mutex // held while the worker works; Park takes it
	queues []echoQueue
	acked  uint64
	log    []string // calls that were made, for tests
	err    error    // breach of the Device contract
	broken func(int, error)
	config []byte
	mtu    uint16
	rarp   [6]byte
	refuse error // what SetFeatures and SetMTU return

	parked  atomic.Bool
	frames  atomic.Int64
	wake    int // eventfd
	stopped chan struct{}
	done    atomic.Bool
	vecs    [2][]iov.Vec
}

type echoQueue struct {
	q    *virtqueue.Queue
	kick int
	call vhostuser.Caller
	on   bool
}

func newEchoDevice(t testing.TB, queues int) *echoDevice {
	t.Helper()
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	d := &echoDevice{queues: make([]echoQueue, queues), wake: wake, stopped: make(chan struct{}), features: 1<<35 | 1<<34 | 1<<32 | 1<<28 | 1<<29 | 1<<15 | 1<<3}
	go d.work()
	t.Cleanup(func() {
		d.done.Store(true)
		d.poke()
		<-d.stopped
		unix.Close(wake)
		if d.err != nil {
			t.Error(d.err)
		}
	})
	return d
}

func (d *echoDevice) poke() { unix.Write(d.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (d *echoDevice) work() {
	defer close(d.stopped)
	kicked := make([]bool, len(d.queues))
	for !d.done.Load() {
		d.mu.Lock()
		fds := []unix.PollFd{{Fd: int32(d.wake), Events: unix.POLLIN}}
		for i := range d.queues {
			if q := &d.queues[i]; q.q != nil && q.kick >= 0 {
				fds = append(fds, unix.PollFd{Fd: int32(q.kick), Events: unix.POLLIN})
			}
		}
		more := d.pass(kicked)
		d.mu.Unlock()
		timeout := 20 // for rings without kick
		if more {
			timeout = 0
		}
		unix.Poll(fds, timeout)
		var b [8]byte
		d.mu.Lock()
		unix.Read(d.wake, b[:])
		for i := range d.queues {
			kicked[i] = false
			if q := &d.queues[i]; q.q != nil && q.kick >= 0 {
				n, _ := unix.Read(q.kick, b[:])
				kicked[i] = n > 0
			}
		}
		d.mu.Unlock()
	}
}

// pass moves a batch per queue pair and reports whether there is more.
func (d *echoDevice) pass(kicked []bool) (more bool) {
	for i := 1; i < len(d.queues); i += 2 {
		tx, rx := &d.queues[i], &d.queues[i-1]
		if tx.q == nil || !tx.on && !kicked[i] {
			continue
		}
		if d.drop || !tx.on {
			d.drain(i, tx)
		} else {
			for range 64 {
				if !d.one(i, tx, rx) {
					break
				}
			}
		}
		for _, q := range []*echoQueue{tx, rx} {
			if q.q != nil && q.on && q.q.Publish() {
				q.call.Call()
			}
		}
		room := d.drop || rx.q != nil && rx.on && rx.q.ArmKicks()
		if tx.on && tx.q.ArmKicks() && room {
			more = true
		}
	}
	return more
}

func (d *echoDevice) one(i int, tx, rx *echoQueue) bool {
	vecs, token, err := tx.q.Take(d.vecs[0][:0])
	if err != nil {
		d.check(i, err)
		return false
	}
	d.vecs[0] = vecs
	if rx.q == nil || !rx.on {
		tx.q.Untake(1)
		return false
	}
	out, rtoken, err := rx.q.Take(d.vecs[1][:0])
	if err != nil {
		d.check(i-1, err)
		tx.q.Untake(1)
		return false
	}
	d.vecs[1] = out
	n := 0
	for _, v := range vecs {
		n += iov.CopyIn(out, n, v.Bytes())
	}
	rx.q.Return(rtoken, uint32(n))
	tx.q.Return(token, 0)
	d.frames.Add(1)
	return true
}

// drain takes all there is and returns it.
func (d *echoDevice) drain(i int, tx *echoQueue) {
	var tokens []uint32
	for {
		_, token, err := tx.q.Take(d.vecs[0][:0])
		if err != nil {
			d.check(i, err)
			break
		}
		tokens = append(tokens, token)
	}
	for _, token := range tokens {
		tx.q.Return(token, 0)
		d.frames.Add(1)
	}
	if !tx.on && tx.q.Publish() {
		tx.call.Call()
	}
}

func (d *echoDevice) check(i int, err error) {
	if errors.Is(err, virtqueue.ErrBroken) && d.broken != nil {
		d.broken(i, err)
	}
}

// note records a call and whether it came parked.
func (d *echoDevice) note(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !d.parked.Load() {
		d.err = errors.Join(d.err, fmt.Errorf("%s while not parked", s))
	}
	d.log = append(d.log, s)
}

func (d *echoDevice) Features() uint64 { return d.features }
func (d *echoDevice) NumQueues() int   { return len(d.queues) }

func (d *echoDevice) Park(f func()) {
	d.mu.Lock()
	if !d.parked.CompareAndSwap(false, true) {
		panic("nested Park")
	}
	f()
	d.parked.Store(false)
	d.mu.Unlock()
	d.poke()
}

func (d *echoDevice) SetFeatures(acked uint64) error {
	d.note("features %#x", acked)
	if d.refuse != nil {
		return d.refuse
	}
	d.acked = acked
	return nil
}

func (d *echoDevice) StartQueue(i int, q *virtqueue.Queue, kick int, call vhostuser.Caller) {
	d.note("start %d", i)
	if d.queues[i].q != nil {
		d.err = errors.Join(d.err, fmt.Errorf("queue %d started twice", i))
	}
	d.queues[i] = echoQueue{q: q, kick: kick, call: call}
}

func (d *echoDevice) StopQueue(i int) {
	d.note("stop %d", i)
	if d.queues[i].q == nil {
		d.err = errors.Join(d.err, fmt.Errorf("queue %d stopped without a start", i))
	}
	d.queues[i] = echoQueue{}
}

func (d *echoDevice) EnableQueue(i int, on bool) {
	d.note("enable %d %v", i, on)
	if d.queues[i].q == nil {
		d.err = errors.Join(d.err, fmt.Errorf("queue %d enabled without a start", i))
	}
	d.queues[i].on = on
}

func (d *echoDevice) Reset() { d.note("reset") }

func (d *echoDevice) ConfigSpace() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
}

func (d *echoDevice) SetMTU(mtu uint16) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mtu = mtu
	return d.refuse
}

func (d *echoDevice) SendRARP(mac [6]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rarp = mac
}

// with runs f while nobody else uses the device's fields.
func (d *echoDevice) with(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// calls returns the calls so far and forgets them.
func (d *echoDevice) calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.log
	d.log = nil
	return l
}
