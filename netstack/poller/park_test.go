package poller

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// idlePoller returns one whose next Wait parks.
func idlePoller(t *testing.T) *Poller {
	t.Helper()
	p := newPoller(t)
	p.idle = true
	return p
}

func TestParkEndsInTime(t *testing.T) {
	p, fd := idlePoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable); err != nil {
		t.Fatal(err)
	}
	for _, ms := range []int{6, 20, 6} {
		p.idle = true
		from := time.Now()
		if n := p.Wait(ms); n != 0 {
			t.Fatalf("%d events, want none", n)
		}
		if took := time.Since(from); took < time.Duration(ms)*time.Millisecond {
			t.Errorf("parked for %v, want %d ms", took, ms)
		}
	}
	// A deadline that has passed is not the next wait's.
	p.idle = true
	time.AfterFunc(20*time.Millisecond, func() { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) })
	if n := p.Wait(-1); n != 1 {
		t.Errorf("%d events, want the kick", n)
	}
}

// TestParkSeesWhatCameBefore: an event of the time before the park, and one
// that came while the gate was open and was taken by a raw wait.
func TestParkSeesWhatCameBefore(t *testing.T) {
	p, fd := idlePoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		kick(t, fd)
		p.idle = true
		if n := p.Wait(1000); n != 1 {
			t.Fatalf("round %d: %d events, want the kick of before", i, n)
		}
		p.idle = true
		if n := p.Wait(6); n != 0 { // leaves the gate open
			t.Fatalf("round %d: %d events, want none", i, n)
		}
		kick(t, fd)
		if n := p.Wait(0); n != 1 {
			t.Fatalf("round %d: a raw wait has %d events, want 1", i, n)
		}
	}
}

// TestNoKickIsLost kicks at all distances to the moment in which the poller
// parks.
func TestNoKickIsLost(t *testing.T) {
	p, fd := newPoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable); err != nil {
		t.Fatal(err)
	}
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	kicked := make(chan time.Duration)
	go func() {
		for d := range kicked {
			time.Sleep(d)
			_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		}
	}()
	defer close(kicked)
	for i := range rounds {
		d := time.Duration(rand.IntN(8000)) * time.Microsecond
		if i%2 == 0 { // around the moment in which the raw wait ends
			d = busyMs*time.Millisecond + time.Duration(rand.IntN(200)-100)*time.Microsecond
		}
		kicked <- d
		for from := time.Now(); p.Wait([]int{-1, 7, 10_000}[i%3]) == 0; {
			if time.Since(from) > 5*time.Second {
				t.Fatalf("round %d: the kick after %v was lost", i, d)
			}
		}
	}
}

func TestParkAllocatesNothing(t *testing.T) {
	p, fd := idlePoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable); err != nil {
		t.Fatal(err)
	}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	if n := testing.AllocsPerRun(100, func() {
		p.idle = true
		p.Wait(6)
		_, _ = unix.Write(fd, one)
		p.idle = true
		p.Wait(-1)
	}); n != 0 {
		t.Errorf("%v allocations a park, want 0", n)
	}
}

// TestRawWaitsWakeNobody: while the poller is not parked, the gate is shut, so
// that Go's poller has nothing to wake another thread for.
func TestRawWaitsWakeNobody(t *testing.T) {
	p, fd := idlePoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable); err != nil {
		t.Fatal(err)
	}
	kick(t, fd)
	p.Wait(1000)
	p.idle = true
	woke := make(chan struct{})
	time.AfterFunc(10*time.Millisecond, func() { p.Wake(); close(woke) })
	p.Wait(1000) // parks, and is woken
	<-woke
	gate := []unix.PollFd{{Fd: int32(p.parking.gate), Events: unix.POLLIN}}
	p.emptyGate() // of what woke it
	for range 3 {
		kick(t, fd)
		if n, err := unix.Poll(gate, 0); n != 0 || err != nil {
			t.Fatalf("the gate is open (%d, %v) outside of a park", n, err)
		}
		p.Wait(0)
	}
}

func TestCloseGivesBackAllDescriptors(t *testing.T) {
	count := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(d)
	}
	p, err := New() // Go's own poller opens descriptors with the first one
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	before := count()
	for range 10 {
		if p, err = New(); err != nil {
			t.Fatal(err)
		}
		p.Close()
		p.Close()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}
