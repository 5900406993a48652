package poller

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newPoller(t *testing.T) *Poller {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func eventfd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func kick(t *testing.T, fd int) {
	t.Helper()
	if _, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
}

// TestEveryKickIsAnEdge proves what the package relies on: an eventfd that is
// never read reports each write, and no write twice.
func TestEveryKickIsAnEdge(t *testing.T) {
	p, fd := newPoller(t), eventfd(t)
	const token = 7<<56 | 5<<32 | 3
	if err := p.Add(fd, token, Readable); err != nil {
		t.Fatal(err)
	}
	if n := p.Wait(0); n != 0 {
		t.Fatalf("%d events before the first kick", n)
	}
	for i := range 5 {
		kick(t, fd)
		if n := p.Wait(1000); n != 1 {
			t.Fatalf("kick %d: %d events, want 1", i, n)
		}
		got, ready, woken := p.At(0)
		if got != token || ready&Readable == 0 || woken {
			t.Errorf("kick %d: event (%#x, %#x, %v), want token %#x readable", i, got, ready, woken, uint64(token))
		}
		if n := p.Wait(0); n != 0 {
			t.Errorf("kick %d was reported twice", i)
		}
	}
}

func TestRearmReportsAStateThatHolds(t *testing.T) {
	p, fd := newPoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable|Writable); err != nil {
		t.Fatal(err)
	}
	if n := p.Wait(0); n != 1 {
		t.Fatalf("%d events for a writable descriptor, want 1", n)
	}
	if n := p.Wait(0); n != 0 {
		t.Fatalf("%d events without an edge, want 0", n)
	}
	if err := p.Rearm(fd, 2, Readable|Writable); err != nil {
		t.Fatal(err)
	}
	if n := p.Wait(0); n != 1 {
		t.Fatalf("%d events after Rearm, want 1", n)
	}
	if token, ready, _ := p.At(0); token != 2 || ready&Writable == 0 {
		t.Errorf("event (%d, %#x), want token 2 writable", token, ready)
	}
}

func TestWakeEndsAWait(t *testing.T) {
	p := newPoller(t)
	for range 3 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(time.Millisecond)
			p.Wake()
		}()
		if n := p.Wait(10_000); n != 1 {
			t.Fatalf("%d events, want the wake-up", n)
		}
		if _, _, woken := p.At(0); !woken {
			t.Error("the event is not the wake-up")
		}
		<-done
	}
}

func TestRemovedAndClosedDescriptorsAreSilent(t *testing.T) {
	p, fd := newPoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable); err != nil {
		t.Fatal(err)
	}
	p.Remove(fd)
	kick(t, fd)
	if n := p.Wait(0); n != 0 {
		t.Errorf("%d events for a removed descriptor", n)
	}
	if err := p.Add(-1, 1, Readable); err == nil {
		t.Error("a bad descriptor was added")
	}
	if err := p.Rearm(fd, 1, Readable); err == nil {
		t.Error("a descriptor that is not there was rearmed")
	}
}

func TestWaitAllocatesNothing(t *testing.T) {
	p, fd := newPoller(t), eventfd(t)
	if err := p.Add(fd, 1, Readable); err != nil {
		t.Fatal(err)
	}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	if n := testing.AllocsPerRun(200, func() {
		_, _ = unix.Write(fd, one)
		p.Wait(-1)
		p.At(0)
		p.Wait(0)
	}); n != 0 {
		t.Errorf("%v allocations a turn, want 0", n)
	}
}
