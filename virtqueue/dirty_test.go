package virtqueue_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/dirtylog"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// logBytes has a bit for each page up to the end of twoRegions.
const logBytes = (highAddr + highSize) / page / 8

// loggedPair is pair with a log of everything that the device writes.
func loggedPair(t testing.TB, cfg virtqtest.Config, writable bool) (drv *virtqtest.Driver, q *virtqueue.Queue, bitmap []byte) {
	t.Helper()
	drv, err := virtqtest.NewDriver(twoRegions(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	bitmap = make([]byte, logBytes, logBytes+4)
	log, err := dirtylog.New(bitmap)
	if err != nil {
		t.Fatal(err)
	}
	c := drv.QueueConfig(writable)
	desc, _, used := drv.Addrs()
	c.Logging = virtqueue.Logging{Log: log, Ring: true, DescAddr: desc, UsedAddr: used}
	if q, err = virtqueue.New(c); err != nil {
		t.Fatal(err)
	}
	return drv, q, bitmap
}

// pages is a set of pages of guest memory.
type pages map[uint64]bool

func (p pages) add(addr, n uint64) {
	for a := addr / page; n > 0 && a <= (addr+n-1)/page; a++ {
		p[a] = true
	}
}

// without returns some page of p that is not in q.
func (p pages) without(q pages) (uint64, bool) {
	for a := range p {
		if !q[a] {
			return a, true
		}
	}
	return 0, false
}

// clearLog takes the marked pages out of the log.
func clearLog(bitmap []byte) pages {
	p := pages{}
	for i := range uint64(len(bitmap)) * 8 {
		if bitmap[i/8]&(1<<(i%8)) != 0 {
			p[i] = true
		}
	}
	clear(bitmap)
	return p
}

// snapshot is a copy of all memory.
type snapshot [2][]byte

func (s *snapshot) take(m *virtqtest.Memory) {
	s[0] = append(s[0][:0], m.Bytes(lowAddr, lowSize)...)
	s[1] = append(s[1][:0], m.Bytes(highAddr, highSize)...)
}

// changed returns the pages that are another than in s.
func (s *snapshot) changed(m *virtqtest.Memory) pages {
	p := pages{}
	for i, start := range []uint64{lowAddr, highAddr} {
		now := m.Bytes(start, uint64(len(s[i])))
		for off := 0; off < len(now); off += page {
			if !bytes.Equal(now[off:off+page], s[i][off:off+page]) {
				p[(start+uint64(off))/page] = true
			}
		}
	}
	return p
}

// dirtyRings are the rings on which the log is compared with the memory.
var dirtyRings = []virtqtest.Config{
	{Size: 1024, EventIdx: true, Indirect: true, FirstIndex: 470},
	{Size: 512},
	{Size: 16, EventIdx: true, InOrder: true, FirstIndex: 65530},
	{Size: 512, Packed: true, EventIdx: true, Indirect: true},
	{Size: 500, Packed: true},
	{Size: 300, Packed: true, EventIdx: true, InOrder: true},
}

// dirtyRun is a random course of a device on a ring with a log.
type dirtyRun struct {
	t        *testing.T
	rnd      *rand.Rand
	drv      *virtqtest.Driver
	q        *virtqueue.Queue
	writable bool
	held     []heldChain
	may      pages // that the device could have written
}

type heldChain struct {
	vecs  []iov.Vec
	token uint32
}

// TestLogHasWhatIsWritten: after each step of the device, the pages that have
// changed are in the log, and no page is there that the device had no business
// with.
func TestLogHasWhatIsWritten(t *testing.T) {
	for _, cfg := range dirtyRings {
		for _, writable := range []bool{true, false} {
			t.Run(fmt.Sprintf("%+v writable %v", cfg, writable), func(t *testing.T) {
				drv, q, bitmap := loggedPair(t, cfg, writable)
				r := &dirtyRun{t: t, rnd: rand.New(rand.NewPCG(3, uint64(cfg.Size))), drv: drv, q: q, writable: writable}
				var before snapshot
				marked := 0
				for range 200 {
					r.driver()
					r.may = pages{}
					desc, _, used := drv.Addrs()
					parts := virtqueue.Layout(cfg.Packed, cfg.Size)
					r.may.add(used, uint64(parts[2].Bytes))
					if cfg.Packed {
						r.may.add(desc, uint64(parts[0].Bytes))
					}
					for _, h := range r.held {
						r.mayWrite(h.vecs)
					}
					before.take(drv.Memory())
					r.device()
					changed, logged := before.changed(drv.Memory()), clearLog(bitmap)
					if a, missing := changed.without(logged); missing {
						t.Fatalf("page %#x has changed and is not in the log", a*page)
					}
					if a, extra := logged.without(r.may); extra {
						t.Fatalf("page %#x is in the log for nothing", a*page)
					}
					marked += len(logged)
				}
				if marked == 0 || q.Counters().Batches == 0 {
					t.Errorf("%d pages were marked, counters %+v", marked, q.Counters())
				}
			})
		}
	}
}

// driver reaps and adds chains at random.
func (r *dirtyRun) driver() {
	for {
		if _, ok, err := r.drv.Reap(); err != nil {
			r.t.Fatal(err)
		} else if !ok {
			break
		}
	}
	for r.rnd.IntN(8) > 0 {
		var bufs []virtqtest.Buffer
		for range 1 + r.rnd.IntN(4) {
			n := 1 + r.rnd.Uint64N(3*page)
			// Over the border of the regions too. The lower half has the ring.
			addr := lowAddr + lowSize/2 + r.rnd.Uint64N(lowSize/2+highSize-n)
			bufs = append(bufs, virtqtest.Buffer{Addr: addr, Len: uint32(n)})
		}
		readable, writable := bufs, []virtqtest.Buffer(nil)
		if r.writable != (r.rnd.IntN(20) == 0) { // else of the wrong direction
			readable, writable = writable, readable
		}
		if _, err := r.drv.Add(readable, writable); errors.Is(err, virtqtest.ErrFull) {
			break
		} else if err != nil {
			r.t.Fatal(err)
		}
	}
	r.drv.Kick()
}

// device works on the ring at random, and publishes.
func (r *dirtyRun) device() {
	for range r.rnd.IntN(12) {
		switch r.rnd.IntN(8) {
		case 0:
			r.q.SuppressKicks()
		case 1:
			r.q.ArmKicks()
		case 2:
			if len(r.held) > 0 { // written or not, it goes back to the ring
				r.scribble(r.held[len(r.held)-1].vecs, r.rnd.IntN(2*page))
				r.held = r.held[:len(r.held)-1]
				r.q.Untake(1)
			}
		case 3, 4:
			r.giveBack()
		case 5:
			r.q.Publish()
		default:
			vecs, token, err := r.q.Take(nil)
			if err == virtqueue.ErrEmpty {
				continue
			} else if err != nil {
				r.t.Fatal(err)
			}
			r.mayWrite(vecs)
			r.held = append(r.held, heldChain{vecs, token})
		}
	}
	for len(r.held) > 4 {
		r.giveBack()
	}
	r.q.Publish()
}

func (r *dirtyRun) mayWrite(vecs []iov.Vec) {
	if !r.writable {
		return
	}
	for _, v := range vecs {
		addr, ok := r.drv.Memory().Map().HostToGuest(v.Base)
		if !ok {
			r.t.Fatal("a vector outside of memory")
		}
		r.may.add(addr, v.Len)
	}
}

// giveBack returns the oldest chain, and writes part of it before, and the first
// bytes once more afterwards, as it is done to the number of buffers of a frame.
func (r *dirtyRun) giveBack() {
	if len(r.held) == 0 {
		return
	}
	h := r.held[0]
	r.held = r.held[1:]
	n := 0
	if r.writable && r.rnd.IntN(5) > 0 {
		n = r.rnd.IntN(iov.Len(h.vecs) + 1)
	}
	r.scribble(h.vecs, n)
	r.q.Return(h.token, uint32(n))
	r.scribble(h.vecs, min(n, 12))
}

// scribble writes n random bytes, or as many as there is room for.
func (r *dirtyRun) scribble(vecs []iov.Vec, n int) {
	if !r.writable {
		return
	}
	b := make([]byte, min(n, iov.Len(vecs)))
	for i := range b {
		b[i] = byte(r.rnd.Uint32())
	}
	iov.CopyIn(vecs, 0, b)
}

// TestLogWithoutRing: what is written to the ring is not marked unless asked for,
// but what is written to buffers is.
func TestLogWithoutRing(t *testing.T) {
	for _, packed := range []bool{false, true} {
		drv, err := virtqtest.NewDriver(twoRegions(t), virtqtest.Config{Size: 8, Packed: packed})
		if err != nil {
			t.Fatal(err)
		}
		bitmap := make([]byte, logBytes, logBytes+4)
		log, err := dirtylog.New(bitmap)
		if err != nil {
			t.Fatal(err)
		}
		c := drv.QueueConfig(true)
		c.Logging = virtqueue.Logging{Log: log}
		q, err := virtqueue.New(c)
		if err != nil {
			t.Fatal(err)
		}
		add(t, drv, true, virtqtest.Buffer{Addr: highAddr + page, Len: 2 * page})
		_, token := take(t, q)
		q.Return(token, page+1)
		q.SuppressKicks()
		if got := clearLog(bitmap); len(got) > 0 {
			t.Errorf("packed %v: %v in the log before the chain is published", packed, got)
		}
		q.Publish()
		q.ArmKicks()
		want := pages{}
		want.add(highAddr+page, page+1)
		if got := clearLog(bitmap); len(got) != 2 || len(want) != 2 || !got[highAddr/page+1] || !got[highAddr/page+2] {
			t.Errorf("packed %v: pages %v in the log, want %v", packed, got, want)
		}
	}
}

// TestMarkedWhenVisible: a driver that sees a chain finds its page in the log.
func TestMarkedWhenVisible(t *testing.T) {
	for _, packed := range []bool{false, true} {
		drv, q, bitmap := loggedPair(t, virtqtest.Config{Size: 16, Packed: packed, EventIdx: true}, true)
		const rounds = 2000
		failed := make(chan error, 1)
		go func() { failed <- reapMarked(drv, bitmap, rounds) }()
		for n := 0; n < rounds; {
			vecs, token, err := q.Take(nil)
			if err == virtqueue.ErrEmpty {
				runtime.Gosched()
				select {
				case err := <-failed:
					t.Fatal(err)
				default:
				}
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			iov.CopyIn(vecs, 0, []byte{byte(n)})
			q.Return(token, 1)
			q.Publish()
			n++
		}
		if err := <-failed; err != nil {
			t.Fatalf("packed %v: %v", packed, err)
		}
	}
}

// reapMarked is a driver with one buffer after the other, each in a page of its
// own, and takes each page out of the log again.
func reapMarked(drv *virtqtest.Driver, bitmap []byte, rounds int) error {
	for n := range rounds {
		addr := uint64(highAddr + n%(highSize/page)*page)
		if _, err := drv.Add(nil, []virtqtest.Buffer{{Addr: addr, Len: 1}}); err != nil {
			return err
		}
		drv.Publish()
		for {
			if _, ok, err := drv.Reap(); err != nil {
				return err
			} else if ok {
				break
			}
			runtime.Gosched()
		}
		if !takeBit(bitmap, addr/page) {
			return fmt.Errorf("round %d: the driver sees a chain whose page is not in the log", n)
		}
	}
	return nil
}

// TestPublishMarksFirst: nothing is visible to the driver before the page is in the
// log. A log that faults shows the moment.
func TestPublishMarksFirst(t *testing.T) {
	gone, err := syscall.Mmap(-1, 0, page, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(gone) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	log, err := dirtylog.New(gone)
	if err != nil {
		t.Fatal(err)
	}
	for _, packed := range []bool{false, true} {
		for _, l := range []virtqueue.Logging{{Log: log}, {Log: log, Ring: true}} {
			drv, err := virtqtest.NewDriver(twoRegions(t), virtqtest.Config{Size: 8, Packed: packed})
			if err != nil {
				t.Fatal(err)
			}
			c := drv.QueueConfig(true)
			c.Logging = l
			q, err := virtqueue.New(c)
			if err != nil {
				t.Fatal(err)
			}
			add(t, drv, true, virtqtest.Buffer{Addr: highAddr, Len: page})
			_, token := take(t, q)
			written := uint32(1)
			if l.Ring {
				written = 0 // the ring alone is to be marked
			}
			q.Return(token, written)
			if !faults(func() { q.Publish() }) {
				t.Fatal("the log was not touched")
			}
			if u, ok, err := drv.Reap(); ok || err != nil {
				t.Errorf("packed %v, ring %v: the driver sees %+v, %v", packed, l.Ring, u, err)
			}
		}
	}
}

func faults(f func()) (fault bool) {
	defer func() {
		if _, ok := recover().(interface{ Addr() uintptr }); ok {
			fault = true
		}
	}()
	f()
	return false
}

// TestLogForgetsLongChains: what a queue keeps for its log does not grow with the
// chains that went by.
func TestLogForgetsLongChains(t *testing.T) {
	drv, q, _ := loggedPair(t, virtqtest.Config{Size: 64, Indirect: true, IndirectEntries: 64}, true)
	bufs := make([]virtqtest.Buffer, 64)
	for i := range bufs {
		bufs[i] = virtqtest.Buffer{Addr: highAddr + uint64(i), Len: 1}
	}
	vecs := make([]iov.Vec, 0, 64)
	if n := testing.AllocsPerRun(10, func() {
		if _, err := drv.Add(nil, bufs); err != nil {
			t.Fatal(err)
		}
		drv.Publish()
		_, token, err := q.Take(vecs)
		if err != nil {
			t.Fatal(err)
		}
		q.Return(token, 64)
		q.Publish()
		if _, ok, err := drv.Reap(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}); n == 0 {
		t.Error("the list of a long chain was kept")
	}
}
