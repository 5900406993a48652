package tcp

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// bigWorld has a guest with a window wide enough for big frames, and a host that
// has sent so much that the next frame would be a big one.
func bigWorld(t *testing.T, s setup) *script {
	t.Helper()
	s.features = allOffloads
	if s.bigBytes == 0 {
		s.bigBytes = bigBytes
	}
	if s.buffers == 0 {
		s.buffers, s.bufferBytes = 512, 1526
	}
	x := newScript(t, s)
	x.openBig(1, "sackok")
	return x
}

const (
	// bigBytes is the data of the tests' big frames, and burst as much as the
	// host's receive buffer surely holds.
	bigBytes = 90_000
	burst    = 2 * bigBytes
	// warmUp is how much a flow carries until the kernel uses its receive buffer.
	warmUp = 600_000
)

func (x *script) openBig(n int, options string) {
	x.Helper()
	x.step(fmt.Sprintf("guest:%d opens mss 1000 wscale 6 %s", n, options))
	x.widen(n)
	x.hostSends(n, warmUp)
	g := x.guest(n)
	for g.taken = 1; g.taken < warmUp+1; {
		for _, s := range x.frames() {
			if s.end-s.seq > maxIPPacket {
				x.fail("frame of %d bytes", s.end-s.seq)
			}
			g.taken = s.end
		}
		x.step(fmt.Sprintf("guest:%d > . 1 ack %d win 65472", n, g.taken))
	}
	x.answer(n, "") // which opens the window wide
}

// widen gives the host's socket room for a burst, as the kernel does when a
// connection has been fast for a while.
func (x *script) widen(n int) {
	x.Helper()
	k := x.key(n)
	i, _ := x.h.table.Lookup(&k)
	const force, wanted = 33, 4 << 20 // SO_RCVBUFFORCE
	fd := int(x.h.flows.at(i).fd)
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, force, wanted) != nil {
		x.try(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, wanted))
	}
}

// hostSends puts bytes into the host's socket without a turn of the worker, so
// that they are there at once, and as many as the worker expects.
func (x *script) hostSends(n, bytes int) {
	x.Helper()
	p := x.hosts[n]
	b := make([]byte, bytes)
	for i := range b {
		b[i] = pattern(n, 'h', p.written+uint32(i))
	}
	p.written += uint32(bytes)
	k := x.key(n)
	if i, ok := x.h.table.Lookup(&k); ok {
		x.h.flows.at(i).expect = runBytes
	}
	x.try(p.conn.SetWriteDeadline(time.Now().Add(hostPatience)))
	if _, err := p.conn.Write(b); err != nil {
		x.fail("write: %v", err)
	}
	time.Sleep(2 * time.Millisecond)
}

// frames returns what reaches the guest until nothing more comes.
func (x *script) frames() []segment {
	x.Helper()
	x.turn(5 * time.Millisecond)
	x.settle()
	x.collect()
	got := x.got
	x.got = nil
	return got
}

// answer acknowledges what the guest has taken.
func (x *script) answer(n int, options string) {
	x.Helper()
	x.guestSends(n, append([]string{".", fmt.Sprint(x.guest(n).sent), "ack", fmt.Sprint(x.guest(n).taken), "win", "1000000"}, fields(options)...))
}

func fields(s string) (f []string) {
	var a, b string
	if n, _ := fmt.Sscan(s, &a, &b); n == 2 {
		f = []string{a, b}
	}
	return f
}

// sizes are the bytes of data of frames, 0 for the nudge.
func sizes(all []segment) (n []int) {
	for _, s := range all {
		if s.nudge {
			n = append(n, 0)
		} else {
			n = append(n, int(s.end-s.seq))
		}
	}
	return n
}

func largest(all []segment) (most int) {
	for _, n := range sizes(all) {
		most = max(most, n)
	}
	return most
}

// takes lets the guest take everything until all bytes have come.
func (x *script) takes(n int, got []segment) (most int) {
	x.Helper()
	g := x.guest(n)
	for end := x.hosts[n].written; ; got = x.frames() {
		most = max(most, largest(got))
		for _, s := range got {
			if !before(g.taken, s.seq) && before(g.taken, s.end) {
				g.taken = s.end
			}
		}
		if g.taken == end {
			x.answer(n, "")
			return most
		}
		if len(got) == 0 {
			x.fail("the guest has %d of %d bytes, and nothing comes", g.taken, end)
		}
		x.answer(n, "")
	}
}

func eachFamily(t *testing.T, f func(t *testing.T, v6 bool)) {
	for _, v6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "IPv4", true: "IPv6"}[v6], func(t *testing.T) { f(t, v6) })
	}
}

// TestBigFramesTaken: the first big frame is followed by a nudge, the others are
// ordinary until it is acknowledged, and then all may be big.
func TestBigFramesTaken(t *testing.T) {
	eachFamily(t, func(t *testing.T, v6 bool) {
		x := bigWorld(t, setup{v6: v6})
		x.hostSends(1, burst)
		got := x.frames()
		if s := sizes(got); len(s) < 3 || s[0] != bigBytes || got[0].option {
			t.Fatalf("frames of %v bytes, option %v; want a big one first", s, got[0].option)
		}
		nudges := 0
		for _, s := range got[1:] {
			if s.nudge {
				nudges++
			} else if s.end-s.seq > maxIPPacket {
				t.Errorf("a second big frame of %d bytes", s.end-s.seq)
			}
		}
		if nudges != 1 {
			t.Errorf("%d nudges", nudges)
		}
		x.takes(1, got)
		x.hostSends(1, burst)
		got = x.frames()
		if s := sizes(got); s[0] != bigBytes || s[1] != bigBytes {
			t.Errorf("frames of %v bytes, want all big", s)
		}
		x.takes(1, got)
		x.openBig(2, "sackok")
		x.hostSends(2, burst)
		if got = x.frames(); sizes(got)[0] != bigBytes {
			t.Errorf("a second flow: frames of %v bytes", sizes(got))
		}
		x.takes(2, got)
		x.pass(time.Minute)
		if c := x.h.Counters; c.Retransmits != 0 || c.BigRefused != 0 {
			t.Errorf("%+v", c)
		}
		x.close()
	})
}

// TestBigFramesRefused: the guest drops the first big frame without a word. What it
// answers to the nudge brings ordinary frames at once, and no more big ones of this
// form ever.
func TestBigFramesRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"duplicate":       "",
		"received twice":  "sack 0:1",
		"behind it":       "sack 300001:310001",
		"carried by data": "data",
	} {
		t.Run(name, func(t *testing.T) {
			x := bigWorld(t, setup{})
			x.hostSends(1, bigBytes)
			got := x.frames()
			if s := sizes(got); len(s) != 2 || s[0] != bigBytes || s[1] != 0 {
				t.Fatalf("frames of %v bytes, want a big one and a nudge", s)
			}
			g := x.guest(1)
			switch {
			case answer == "data":
				x.step(fmt.Sprintf("guest > . 1:101 ack %d win 1000000 sack %d:%d", g.taken, g.taken-1, g.taken))
				x.step("host reads 100")
			case name == "behind it":
				x.hostSends(1, 10_000)
				x.frames()
				answer = fmt.Sprintf("sack %d:%d", warmUp+bigBytes+1, warmUp+bigBytes+10_001)
			case answer != "":
				answer = fmt.Sprintf("sack %d:%d", g.taken-1, g.taken)
			}
			if answer != "data" {
				x.answer(1, answer)
			}
			got = x.frames()
			if name == "behind it" {
				g.taken = x.hosts[1].written // with what fills the gap
			}
			if most := x.takes(1, got); most > maxIPPacket || most == 0 {
				t.Errorf("sent again in frames of up to %d bytes", most)
			}
			x.hostSends(1, burst)
			if most := x.takes(1, x.frames()); most > maxIPPacket {
				t.Errorf("another big frame, of %d bytes", most)
			}
			x.openBig(2, "sackok")
			x.hostSends(2, burst)
			if most := x.takes(2, x.frames()); most > maxIPPacket {
				t.Errorf("a big frame of another flow, of %d bytes", most)
			}
			if c := x.h.Counters; c.BigRefused != 1 || c.BigToGuest != 1 || c.Timeouts != 0 {
				t.Errorf("%+v", c)
			}
			x.close()
		})
	}
}

// TestBigFramesNextForm: a guest that refuses a payload length of 0 is asked with the
// jumbo payload option next, by the same flow.
func TestBigFramesNextForm(t *testing.T) {
	for _, takes := range []bool{true, false} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			x := bigWorld(t, setup{v6: true})
			x.hostSends(1, bigBytes)
			x.frames()
			x.answer(1, "")
			x.takes(1, x.frames())
			x.hostSends(1, 1000) // the first that is sent after the loss
			x.takes(1, x.frames())
			x.hostSends(1, bigBytes)
			got := x.frames()
			if s := sizes(got); s[0] != bigBytes || !got[0].option {
				t.Fatalf("frames of %v bytes, option %v", s, got[0].option)
			}
			if !takes {
				x.answer(1, "")
				x.takes(1, x.frames())
				x.hostSends(1, burst)
				if most := x.takes(1, x.frames()); most > maxIPPacket {
					t.Errorf("a frame of %d bytes", most)
				}
				return
			}
			x.takes(1, got)
			x.hostSends(1, bigBytes+3000)
			got = x.frames()
			// What is left was to be a big frame too, and is padded.
			if s := sizes(got); s[0] != bigBytes || s[1] != 3000 || !got[0].option || !got[1].option {
				t.Errorf("frames of %v bytes, options %v, %v", s, got[0].option, got[1].option)
			}
			x.takes(1, got)
		})
	}
}

// TestBigFramesOneAsks: while the guest's will is not known, one flow asks and the
// others send ordinary frames.
func TestBigFramesOneAsks(t *testing.T) {
	x := bigWorld(t, setup{})
	x.openBig(2, "sackok")
	x.hostSends(1, bigBytes)
	if s := sizes(x.frames()); s[0] != bigBytes {
		t.Fatalf("frames of %v bytes", s)
	}
	x.hostSends(2, bigBytes)
	if most := x.takes(2, x.frames()); most > maxIPPacket {
		t.Errorf("the other flow sends %d bytes", most)
	}
	x.step("guest > R 1") // and with the flow ends its question
	x.got = nil
	x.hostSends(2, bigBytes)
	if got := x.frames(); sizes(got)[0] != bigBytes {
		t.Errorf("frames of %v bytes", sizes(got))
	} else {
		x.takes(2, got)
	}
}

// TestBigFramesUnanswered: a guest that does not answer at all gets ordinary frames
// when the timer runs out, and is asked a few times more.
func TestBigFramesUnanswered(t *testing.T) {
	x := bigWorld(t, setup{})
	asked := 0
	for range maxUnanswered + 2 {
		x.hostSends(1, bigBytes)
		got := x.frames()
		if sizes(got)[0] == bigBytes {
			asked++
			x.pass(time.Second)
			x.collect()
			got, x.got = x.got, nil
		}
		if most := x.takes(1, got); most > maxIPPacket {
			t.Errorf("sent again in frames of %d bytes", most)
		}
	}
	if asked != maxUnanswered {
		t.Errorf("asked %d times", asked)
	}
}

// TestBigFramesOutOfPlace: no big frame goes where it was switched off, not agreed,
// or does not fit.
func TestBigFramesOutOfPlace(t *testing.T) {
	for name, c := range map[string]struct {
		s       setup
		options string
		window  int
	}{
		"not mergeable": {setup{notMergeable: true, buffers: 60, bufferBytes: 68 << 10, bigBytes: bigBytes}, "sackok", 1_000_000},
		"off":           {setup{buffers: 512}, "sackok", 1_000_000},
		"no SACK":       {setup{buffers: 512, bigBytes: bigBytes}, "", 1_000_000},
		"narrow window": {setup{buffers: 512, bigBytes: bigBytes}, "sackok", 130_000},
	} {
		t.Run(name, func(t *testing.T) {
			c.s.features = allOffloads
			x := newScript(t, c.s)
			x.step("guest opens mss 1000 wscale 6 " + c.options)
			x.step(fmt.Sprintf("guest > . 1 ack 1 win %d", c.window))
			x.guest(1).taken = 1
			for range 3 {
				x.hostSends(1, 400_000)
				for x.guest(1).taken != x.hosts[1].written {
					got := x.frames()
					if most := largest(got); most > maxIPPacket || len(got) == 0 {
						t.Fatalf("%d frames of up to %d bytes", len(got), most)
					}
					x.guest(1).taken = got[len(got)-1].end
					x.guestSends(1, []string{".", "1", "ack", fmt.Sprint(x.guest(1).taken), "win", fmt.Sprint(c.window)})
				}
			}
		})
	}
}

// TestBigFramesFewBuffers: a big frame is cut to what the guest has posted, and all of
// it comes.
func TestBigFramesFewBuffers(t *testing.T) {
	x := bigWorld(t, setup{buffers: 80, bufferBytes: 1526, bigBytes: MaxBigBytes})
	x.hostSends(1, burst)
	got := x.frames()
	if n := sizes(got)[0]; n <= maxIPPacket || n > 80*1526 {
		t.Errorf("a frame of %d bytes", n)
	}
	x.takes(1, got)
	x.close()
}

// TestBigFramesForgotten: what was learned of a guest does not hold for the next.
func TestBigFramesForgotten(t *testing.T) {
	x := bigWorld(t, setup{})
	x.hostSends(1, bigBytes)
	x.frames()
	x.answer(1, "")
	x.takes(1, x.frames())
	x.hostSends(1, bigBytes)
	if most := x.takes(1, x.frames()); most > maxIPPacket {
		t.Fatalf("a frame of %d bytes to a guest that refuses", most)
	}
	x.h.ForgetGuest()
	for _, want := range []int{1, 2} { // it is asked again, and then knows
		x.hostSends(1, burst)
		got := x.frames()
		if n := sizes(got); n[0] != bigBytes || want == 2 && n[1] != bigBytes {
			t.Errorf("frames of %v bytes", n)
		}
		x.takes(1, got)
	}
	x.h.ForgetGuest()
	x.hostSends(1, burst)
	if n := sizes(x.frames()); n[0] != bigBytes || n[1] > maxIPPacket {
		t.Errorf("frames of %v bytes without a question", n)
	}
}

// TestBigFramesUnderLoss: as TestEveryByteUnderLoss, with guests of all kinds.
func TestBigFramesUnderLoss(t *testing.T) {
	tooBig := func(s segment) bool { return s.end-s.seq > maxIPPacket }
	for _, c := range []struct {
		name   string
		v6     bool
		refuse func(segment) bool
	}{
		{"takes", false, nil},
		{"takes", true, nil},
		{"refuses", false, tooBig},
		{"refuses", true, tooBig},
		{"takes the option", true, func(s segment) bool { return tooBig(s) && !s.option }},
		{"one flow does not", false, func(s segment) bool { return tooBig(s) && s.flow == 2 }},
	} {
		for seed := range uint64(2) {
			percent := 2 * int(seed)
			t.Run(fmt.Sprintf("%s, v6 %v, %d percent", c.name, c.v6, percent), func(t *testing.T) {
				s := setup{v6: c.v6, features: allOffloads, buffers: 300, bufferBytes: 1526, bigBytes: MaxBigBytes, noPeekOffset: seed == 1}
				count := lossy(t, s, rand.New(rand.NewPCG(seed, 11)), percent, c.refuse)
				if percent == 0 && c.refuse == nil && count.BigRefused > 0 || count.BigToGuest == 0 {
					t.Errorf("%+v", count)
				}
			})
		}
	}
}

// TestBigFramesFromGuest: frames above 64 KiB of the guest are taken as they are.
func TestBigFramesFromGuest(t *testing.T) {
	eachFamily(t, func(t *testing.T, v6 bool) {
		x := newScript(t, setup{v6: v6, features: allOffloads})
		x.step("guest opens mss 1000 wscale 6 sackok")
		at, big := uint32(1), 0
		for at < 1_000_000 {
			n := min(x.guest(1).told-at, 300_000)
			if n == 0 {
				t.Fatalf("window is closed at %d", at)
			}
			if n > maxIPPacket {
				big++
			}
			x.step(fmt.Sprintf("guest > . %d:%d ack 1", at, at+n))
			at += n
			x.step(fmt.Sprintf("host reads %d", n))
			x.step("backend anything")
			x.step(fmt.Sprintf("guest > . %d ack 1", at-1)) // to learn the window
			x.step("backend anything")
		}
		if big == 0 {
			t.Error("the window was never wide enough")
		}
	})
}

// TestBigBegins: a frame is big when its length does not fit the field of its family.
func TestBigBegins(t *testing.T) {
	eachFamily(t, func(t *testing.T, v6 bool) {
		f, fits := &flow{}, header.EthLen+65535
		f.key.Local = header.AddrFromNetip(guest4)
		if v6 {
			f.key.Local = header.AddrFromNetip(guest6)
			fits += header.IPv6Len
		}
		if isBig(f, fits) || !isBig(f, fits+1) {
			t.Errorf("%d bytes: %v, %d bytes: %v", fits, isBig(f, fits), fits+1, isBig(f, fits+1))
		}
	})
}
