package tcp

import (
	"fmt"
	"syscall"
	"testing"
)

// fullSocket makes flow 1 with a host that reads nothing and a socket towards
// it that takes little, and returns how many bytes the guest was allowed to
// send to it.
func fullSocket(t *testing.T, s setup, options string) (x *script, sent int) {
	t.Helper()
	x = newScript(t, s)
	x.step("guest opens mss 1460 " + options)
	x.try(x.hosts[1].conn.SetReadBuffer(4096))
	f := x.h.flows.at(0)
	if err := syscall.SetsockoptInt(int(f.fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 4096); err != nil {
		t.Fatal(err)
	}
	g := x.guest(1)
	x.step("guest > . 1:1001 ack 1")
	x.pass(ackDelayMs * 1e6)
	x.collect()
	for range 400 {
		n := int(g.told - g.sent)
		if n <= 0 {
			break
		}
		x.got = nil
		x.step(fmt.Sprintf("guest > . %d:%d ack 1", g.sent, g.sent+uint32(min(n, 1460))))
		x.pass(ackDelayMs * 1e6)
		x.collect()
	}
	x.got = nil
	if w := g.told - g.sent; w > 1460 {
		t.Fatalf("window of %d bytes after %d: it never closes", w, g.sent)
	}
	return x, int(g.sent) - 1
}

// TestPartialSend: what a socket does not take at once is kept and not
// begged for again, and it is not acknowledged before it was taken.
func TestPartialSend(t *testing.T) {
	x, sent := fullSocket(t, setup{}, "")
	f := x.h.flows.at(0)
	if x.h.Counters.Stashed == 0 || !f.has(hasStash) {
		t.Fatalf("socket took all of %d bytes", sent)
	}
	if f.lastAcked != f.hostTaken || f.hostTaken == f.rcvNxt {
		t.Errorf("acknowledged %d, the host took %d of %d", f.lastAcked, f.hostTaken, f.rcvNxt)
	}
	// A guest that sends again because it has waited too long is told that we
	// have it all, so that it goes on waiting.
	x.step(fmt.Sprintf("guest > . %d:%d ack 1", f.lastAcked-x.guest(1).isn, f.lastAcked-x.guest(1).isn+100))
	x.step(fmt.Sprintf("backend < . 1 ack %d", sent+1))
	// FIN takes its place behind what waits.
	x.step(fmt.Sprintf("guest > F. %d ack 1", sent+1))
	x.step("backend anything")
	x.step(fmt.Sprintf("host reads %d", sent))
	x.step("host reads end")
	x.collect()
	if got := x.guest(1); got.told == 0 || f.hostTaken != f.rcvNxt || x.h.stashBytes != 0 || len(x.h.stash) != 0 {
		t.Errorf("%d bytes are left in %d stashes", x.h.stashBytes, len(x.h.stash))
	}
	last := x.got[len(x.got)-1]
	if int(last.ack) != sent+2 {
		t.Errorf("last acknowledgement %v, want %d", last, sent+2)
	}
	if x.h.Counters.OutOfOrder != 0 {
		t.Errorf("%d segments out of order", x.h.Counters.OutOfOrder)
	}
}

// TestWindowReopens: the guest is told of room without having to ask.
func TestWindowReopens(t *testing.T) {
	for _, options := range []string{"", "wscale 7"} {
		x, sent := fullSocket(t, setup{}, options)
		g := x.guest(1)
		// A probe of the window is answered, and opens nothing.
		x.step(fmt.Sprintf("guest > . %d ack 1", sent))
		if len(x.got) == 0 || int(g.told)-int(g.sent) >= 1460 {
			t.Fatalf("answer to a probe: %v", x.got)
		}
		x.got = nil
		x.step(fmt.Sprintf("host reads %d", sent))
		x.step("backend anything")
		if w := int(g.told - g.sent); w < 1460 {
			t.Fatalf("window of %d bytes when the host has read everything", w)
		}
		x.step(fmt.Sprintf("guest > P. %d:%d ack 1", g.sent, g.sent+1000))
		x.step("host reads 1000")
		x.got = nil
	}
}

// TestAbortWithStash: a reset on either side frees what waits.
func TestAbortWithStash(t *testing.T) {
	x, sent := fullSocket(t, setup{}, "")
	x.step(fmt.Sprintf("guest > R %d", sent+1))
	if x.h.stashBytes != 0 || len(x.h.stash) != 0 {
		t.Errorf("%d bytes are left in %d stashes", x.h.stashBytes, len(x.h.stash))
	}
	x.step("flows 0")

	// A guest that knows nothing any more can only go by what it was told.
	x, _ = fullSocket(t, setup{}, "")
	f := x.h.flows.at(0)
	x.step(fmt.Sprintf("guest > R %d", f.lastAcked-x.guest(1).isn))
	x.step("flows 0")

	x, _ = fullSocket(t, setup{}, "")
	x.step("host aborts")
	s, ok := x.next(hostPatience)
	if !ok || s.flags != "R." {
		t.Errorf("%v, want RST", s)
	}
	x.step("flows 0")
	if x.h.stashBytes != 0 {
		t.Errorf("%d bytes are left", x.h.stashBytes)
	}
}

// TestStashIsBounded: beyond the bound the guest has to send again, and gets a
// chance to.
func TestStashIsBounded(t *testing.T) {
	x, sent := fullSocket(t, setup{}, "")
	f := x.h.flows.at(0)
	others := maxStashBytes - x.h.stashBytes
	x.h.stashBytes += others
	f.rcvEdge += 5000
	x.step(fmt.Sprintf("guest > . %d:%d ack 1", sent+1, sent+1001))
	if len(x.got) == 0 || x.got[0].flags != "." {
		t.Errorf("no acknowledgement tells the guest of the loss: %v", x.got)
	}
	x.got = nil
	x.h.stashBytes -= others
	x.step(fmt.Sprintf("guest > . %d:%d ack 1", sent+1, sent+1001))
	x.step(fmt.Sprintf("host reads %d", sent+1000))
	x.got = nil
}

// TestUrgentData stays in its place in the stream (RFC 6093).
func TestUrgentData(t *testing.T) {
	for _, s := range []setup{{}, {noPeekOffset: true}} {
		x := newScript(t, s)
		x.step("guest opens mss 1460 wscale 7")
		p := x.hosts[1]
		x.step("host writes 3")
		// Urgent data between ordinary data, all there before we look.
		for i := range 12 {
			flags := 0
			if i%4 == 1 {
				flags = syscall.MSG_OOB
			}
			if _, err := syscall.SendmsgN(rawConn(t, p.conn), []byte{pattern(1, 'h', p.written)}, nil, nil, flags); err != nil {
				t.Fatal(err)
			}
			p.written++
		}
		x.step("guest takes 15")
		x.step("host writes 3000")
		x.step("host ends")
		x.step("guest takes 3000")
		x.step("backend < F. 3016")
	}
}

// TestKeepalive: a guest that probes wants to know of the peer, not of us.
func TestKeepalive(t *testing.T) {
	x := newScript(t, setup{})
	x.step("guest opens mss 1460 wscale 7")
	on := func() bool {
		v, err := syscall.GetsockoptInt(int(x.h.flows.at(0).fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
		if err != nil {
			t.Fatal(err)
		}
		return v != 0
	}
	x.step("guest > P. 1:101 ack 1")
	x.step("guest > P. 1:101 ack 1") // a repetition is no probe
	x.step("backend < . 1 ack 101")
	if on() {
		t.Fatal("keepalive is on though the guest did not ask")
	}
	x.step("guest > . 100 ack 1")
	x.step("backend < . 1 ack 101")
	if !on() {
		t.Error("keepalive is off though the guest asks")
	}
}

// TestNagleIsOff: the guest has its own, and two in a row only add delay. It is
// turned off when it could matter first: before the second send.
func TestNagleIsOff(t *testing.T) {
	x := newScript(t, setup{})
	x.openForward(forwardedTo)
	x.step("guest opens mss 1460 wscale 7")
	x.step("host:2 connects")
	x.step("backend:2 < S 0 mss 1460 wscale 7")
	x.step("guest > P. 1:101 ack 1")
	if x.h.flows.at(0).has(noDelay) {
		t.Error("a system call for a connection that may never send again")
	}
	x.step("guest > P. 101:201 ack 1")
	for i := range uint32(2) {
		fd := int(x.h.flows.at(i).fd)
		for what, opt := range map[string][2]int{
			"TCP_NODELAY":  {syscall.IPPROTO_TCP, syscall.TCP_NODELAY},
			"SO_OOBINLINE": {syscall.SOL_SOCKET, syscall.SO_OOBINLINE},
		} {
			if v, err := syscall.GetsockoptInt(fd, opt[0], opt[1]); err != nil || v == 0 {
				t.Errorf("flow %d: %s is %d, %v", i, what, v, err)
			}
		}
	}
}

// TestNoMemoryForAPeek: what the poller has told of comes to the guest later.
func TestNoMemoryForAPeek(t *testing.T) {
	x := newScript(t, setup{})
	x.step("guest opens mss 1460 wscale 7")
	if _, err := x.hosts[1].conn.Write([]byte{pattern(1, 'h', 1), pattern(1, 'h', 2), pattern(1, 'h', 3)}); err != nil {
		t.Fatal(err)
	}
	for x.poll.Wait(1000) == 0 { // the poller tells of it once
	}
	f := x.h.flows.at(0)
	f.set(hostReadable)
	if x.h.peekEnded(0, f, syscall.ENOMEM) {
		t.Error("peeks again at once")
	}
	x.step("backend silent")
	x.step("+20ms")
	x.step("backend < data 1:4")
	if x.h.resumeAtMs != 0 || x.h.Run() {
		t.Error("work is left")
	}
}
