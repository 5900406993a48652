package ringtest

import (
	"errors"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// Place is a way in which guest memory is found to be gone.
type Place string

// The places.
const (
	RingGone   Place = "a ring is touched"
	BufferGone Place = "a receive buffer is written"
	FrameGone  Place = "a frame of the guest is read"
)

// Places are all of them.
func Places() []Place { return []Place{RingGone, BufferGone, FrameGone} }

// Fault makes guest memory vanish at one touch.
type Fault struct {
	place Place
	at, n int
	gone  []byte // memory that is not there
	Fired bool
	Over  bool // set by the test: no fault from now on
}

// NewFault returns a Fault at touch number at of place, the first being 0. Faults
// of memory are panics in the caller's goroutine from now on.
func NewFault(t testing.TB, place Place, at int) *Fault {
	t.Helper()
	debug.SetPanicOnFault(true)
	gone, err := syscall.Mmap(-1, 0, 1<<17, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(gone) })
	return &Fault{place: place, at: at, gone: gone}
}

func (f *Fault) touch(p Place) bool {
	if p != f.place || f.Fired || f.Over {
		return false
	}
	f.n++
	f.Fired = f.n == f.at+1
	return f.Fired
}

// Frame is called with each frame of the guest, and makes it vanish at its time.
func (f *Fault) Frame(vecs []iov.Vec) {
	if f.touch(FrameGone) {
		f.hide(vecs)
	}
}

func (f *Fault) hide(vecs []iov.Vec) {
	for i := range vecs {
		vecs[i] = iov.Of(f.gone[:vecs[i].Len])
	}
}

var errGone = errors.New("memory of the test is gone")

// Guard runs a part of a turn as a worker does. It reports whether memory was
// found to be gone, which *told says if a system call did.
func Guard(told *bool, part func()) (fault bool) {
	defer func() {
		r := recover()
		if _, memory := r.(interface{ Addr() uintptr }); r != nil && r != errGone && !memory {
			panic(r)
		}
		fault = r != nil || *told
		*told = false
	}()
	part()
	return false
}

// Ring returns r in memory that vanishes.
func (f *Fault) Ring(r framequeue.Ring) framequeue.Ring { return &faultyRing{r, f} }

type faultyRing struct {
	framequeue.Ring
	f *Fault
}

func (r *faultyRing) check() {
	if r.f.touch(RingGone) {
		panic(errGone)
	}
}

func (r *faultyRing) Take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	r.check()
	at := len(dst)
	vecs, token, err := r.Ring.Take(dst)
	if err == nil && r.f.touch(BufferGone) {
		r.f.hide(vecs[at:])
	}
	return vecs, token, err
}

func (r *faultyRing) Return(token, n uint32) { r.check(); r.Ring.Return(token, n) }
func (r *faultyRing) Publish() bool          { r.check(); return r.Ring.Publish() }
func (r *faultyRing) SuppressKicks()         { r.check(); r.Ring.SuppressKicks() }
func (r *faultyRing) ArmKicks() bool         { r.check(); return r.Ring.ArmKicks() }
func (r *faultyRing) Pending() int           { r.check(); return r.Ring.Pending() }
