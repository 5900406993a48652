package gvguest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

const (
	// pageBytes is the size of a transmit buffer: large frames take several.
	pageBytes = 4096
	txPages   = 1024
	// maxQueued bounds the frames that wait for the ring, as a queueing
	// discipline of a real system does.
	maxQueued = 20000
)

// transmitter is the transmit side of a NIC; run is its goroutine.
type transmitter struct {
	nic    *NIC
	ring   *Ring
	shim   shim
	rng    *rand.Rand
	wakeFD int

	mu      sync.Mutex
	waiting [][]byte // frames with their vnet header
	asleep  bool

	ready [][]byte // behind the shim, not on the ring yet
	idle  atomic.Bool
	pages []uint64 // free
	used  [][]uint64
	bufs  []virtqtest.Buffer
}

func (t *transmitter) init(n *NIC) error {
	*t = transmitter{nic: n, ring: n.rings.Tx, rng: newRand(n.cfg.Seed + 1)}
	t.used = make([][]uint64, t.ring.Ring().Size())
	for range txPages {
		addr, err := n.rings.Mem.Alloc(pageBytes, 64)
		if err != nil {
			return fmt.Errorf("transmit buffers: %w", err)
		}
		t.pages = append(t.pages, addr)
	}
	t.shim = shim{imp: n.cfg.FromGuest, rng: newRand(n.cfg.Seed + 2), out: func(f []byte) { t.ready = append(t.ready, f) }}
	var err error
	t.wakeFD, err = eventfd()
	return err
}

// queue takes packets of the stack and returns how many.
func (t *transmitter) queue(pkts []*stack.PacketBuffer) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, pkt := range pkts {
		if len(t.waiting) >= maxQueued {
			return max(i, 1) // dropped, which is no error to the stack
		}
		frame := make([]byte, header.VnetLen, header.VnetLen+pkt.Size())
		v := vnetOf(pkt)
		v.Put(frame)
		for _, b := range pkt.AsSlices() {
			frame = append(frame, b...)
		}
		t.waiting = append(t.waiting, frame)
	}
	if t.asleep {
		t.asleep = false
		signal(t.wakeFD)
	}
	return len(pkts)
}

func (t *transmitter) run() {
	defer t.nic.done.Done()
	for !t.nic.closing.Load() {
		t.mu.Lock()
		batch := t.waiting
		t.waiting = nil
		t.asleep = len(batch) == 0
		t.idle.Store(t.asleep && len(t.ready) == 0 && t.ring.Free() == len(t.used))
		t.mu.Unlock()
		for _, f := range batch {
			t.shim.put(f)
		}
		timeout := t.shim.expire()
		if !t.reap() {
			return
		}
		stuck := t.transmit()
		if len(batch) > 0 && !stuck {
			continue
		}
		// The device is asked for calls only when the ring is the obstacle,
		// as Linux does.
		if stuck {
			if t.ring.EnableCallsDelayed() {
				continue
			}
			t.mu.Lock()
			t.asleep = true
			t.mu.Unlock()
			if timeout < 0 {
				timeout = time.Second
			}
		}
		wait(t.ring.CallFD, t.wakeFD, timeout)
		t.ring.DisableCalls()
	}
}

// reap frees the buffers that the device is done with.
func (t *transmitter) reap() bool {
	for {
		u, ok, err := t.ring.Reap()
		if err != nil {
			t.nic.fail("transmit ring: %w", err)
			return false
		}
		if !ok {
			return true
		}
		t.pages = append(t.pages, t.used[u.Head]...)
		t.used[u.Head] = t.used[u.Head][:0]
	}
}

// transmit puts frames on the ring. It reports true when the ring is full.
func (t *transmitter) transmit() (stuck bool) {
	for len(t.ready) > 0 && !stuck {
		if stuck = !t.put(t.ready[0]); !stuck {
			t.ready[0] = nil
			t.ready = t.ready[1:]
		}
	}
	if t.ring.Kick() {
		signal(t.ring.KickFD)
	}
	return stuck
}

// put puts one frame on the ring, in pieces: the vnet header in a buffer of its
// own at times, the rest at any alignment.
func (t *transmitter) put(frame []byte) bool {
	first := len(frame)
	if t.rng.IntN(2) == 0 {
		first = header.VnetLen
	}
	t.bufs = t.bufs[:0]
	var pages []uint64
	for rest := frame; len(rest) > 0; first = len(rest) {
		if len(t.pages) == 0 {
			t.pages = append(t.pages, pages...)
			return false
		}
		page := t.pages[len(t.pages)-1]
		t.pages = t.pages[:len(t.pages)-1]
		pages = append(pages, page)
		skip := t.rng.IntN(64)
		n := min(len(rest), first, pageBytes-skip)
		addr := page + uint64(skip)
		copy(t.nic.rings.Mem.Bytes(addr, uint64(n)), rest)
		t.bufs = append(t.bufs, virtqtest.Buffer{Addr: addr, Len: uint32(n)})
		rest = rest[n:]
	}
	head, err := t.ring.Add(t.bufs, nil)
	if err != nil {
		t.pages = append(t.pages, pages...)
		return false
	}
	t.used[head] = append(t.used[head], pages...)
	if t.nic.cfg.Tap != nil {
		t.nic.cfg.Tap(true, frame[header.VnetLen:])
	}
	return true
}
