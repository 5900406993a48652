package tcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
)

// peer is a guest's TCP reduced to what makes a stream reliable: it sends again
// what is not acknowledged, keeps what comes out of order, and says a window.
type peer struct {
	x   *script
	rng *rand.Rand
	n   int // number of the flow

	// Sequence numbers are relative; FIN counts as a byte.
	sndUna, sndNxt, sndEnd uint32
	window                 uint32 // right edge of what the backend offers
	rtoAtMs                int64
	rcvNxt, rcvEnd         uint32
	ahead                  [][2]uint32 // ranges of data that came out of order
	offer                  uint32      // window that we offer
	closedUntilMs          int64
	out                    []segment
	reset, sack            bool
	scale                  uint32             // of the windows that we offer
	refuse                 func(segment) bool // frames that the guest's kernel drops
	nudged                 bool               // to be reported as received twice

	conn               int // the host's socket
	written, writeEnd  uint32
	read               uint32
	hostEnded, hostEOF bool
}

const (
	peerRTOMs = 250
	peerMSS   = 1000
)

// receive takes a segment of the backend.
func (p *peer) receive(s segment) {
	if s.flags == "R." || s.flags == "R" {
		// A repetition that comes when both have forgotten is answered by RST.
		p.reset = p.reset || p.sndUna != p.sndEnd || p.rcvNxt != p.rcvEnd
		return
	}
	if s.ack-p.sndUna <= p.sndNxt-p.sndUna && s.ack != p.sndUna {
		p.sndUna = s.ack
		p.rtoAtMs = p.x.link.NowMs + peerRTOMs
	}
	if edge := s.ack + uint32(s.win); before(p.window, edge) {
		p.window = edge
	}
	end := s.end
	if flagsOf(s.flags)&1 != 0 {
		end++
	}
	p.nudged = s.nudge
	if end == s.seq {
		if s.seq != p.rcvNxt {
			p.ack() // a probe
		}
		return
	}
	if before(p.rcvNxt+p.offer, end) {
		p.ack() // outside of the window
		return
	}
	p.ahead = append(p.ahead, [2]uint32{s.seq, end})
	slices.SortFunc(p.ahead, func(a, b [2]uint32) int { return int(int32(a[0] - b[0])) })
	for len(p.ahead) > 0 && !before(p.rcvNxt, p.ahead[0][0]) {
		if before(p.rcvNxt, p.ahead[0][1]) {
			p.rcvNxt = p.ahead[0][1]
		}
		p.ahead = p.ahead[1:]
	}
	p.ack()
}

func (p *peer) ack() { p.put(p.sndNxt, p.sndNxt, false) }

func (p *peer) put(seq, end uint32, fin bool) {
	s := segment{flags: ".", seq: seq, end: end, ack: p.rcvNxt, win: int(p.offer), mss: -1, wscale: -1}
	if p.sack && len(p.ahead) > 0 {
		// The newest range first: any three will do.
		first := p.rng.IntN(len(p.ahead))
		s.sack = slices.Clone(p.ahead[first:min(first+3, len(p.ahead))])
	}
	if p.sack && p.nudged {
		s.sack = append([][2]uint32{{p.rcvNxt - 1, p.rcvNxt}}, s.sack[:min(len(s.sack), 2)]...)
		p.nudged = false
	}
	if fin {
		s.flags = "F."
	}
	p.out = append(p.out, s)
}

// send sends what the window takes.
func (p *peer) send() {
	for p.sndNxt != p.sndEnd && (before(p.sndNxt, p.window) || p.sndNxt+1 == p.sndEnd) {
		if p.sndNxt+1 == p.sndEnd {
			p.put(p.sndNxt, p.sndNxt, true)
			p.sndNxt++
			break
		}
		n := min(peerMSS, p.sndEnd-1-p.sndNxt, p.window-p.sndNxt)
		p.put(p.sndNxt, p.sndNxt+n, false)
		p.sndNxt += n
	}
	if p.rtoAtMs == 0 {
		p.rtoAtMs = p.x.link.NowMs + peerRTOMs
	}
}

// timer sends again, and changes the window from time to time.
func (p *peer) timer() {
	now := p.x.link.NowMs
	if p.rtoAtMs != 0 && now >= p.rtoAtMs {
		p.rtoAtMs = now + peerRTOMs
		if p.sndUna != p.sndEnd {
			p.sndNxt = p.sndUna
			if p.sndNxt == p.window {
				p.put(p.sndNxt-1, p.sndNxt-1, false) // probe
			}
		}
	}
	switch {
	case p.offer == 0 && now >= p.closedUntilMs:
		p.offer = (2000 + uint32(p.rng.IntN(60000))) * p.scale
		p.ack()
	case p.rng.IntN(200*int(p.scale)) == 0 && p.rcvNxt != p.rcvEnd:
		p.offer = 0 // and all that is in flight is lost
		p.closedUntilMs = now + int64(p.rng.IntN(3000))
		p.ahead = nil
		p.ack()
	}
}

// host moves bytes through the host's socket.
func (p *peer) host() (busy bool) {
	b := make([]byte, 4096*p.scale*p.scale)
	if n := min(p.writeEnd-p.written, uint32(p.rng.IntN(len(b)))); n > 0 {
		for i := range n {
			b[i] = pattern(p.n, 'h', p.written+i)
		}
		if k, err := syscall.Write(p.conn, b[:n]); err == nil {
			p.written += uint32(k)
			busy = true
		}
	}
	if p.written == p.writeEnd && !p.hostEnded {
		p.hostEnded = true
		p.x.try(syscall.Shutdown(p.conn, syscall.SHUT_WR))
	}
	k, err := syscall.Read(p.conn, b[:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return busy
	case err != nil:
		p.x.fail("flow %d: host reads: %v", p.n, err)
	case k == 0:
		p.hostEOF = true
		return busy
	}
	for i, c := range b[:k] {
		if want := pattern(p.n, 'g', p.read+uint32(i)); c != want {
			p.x.fail("flow %d: byte %d to the host is %#x, want %#x", p.n, p.read+uint32(i), c, want)
		}
	}
	p.read += uint32(k)
	return true
}

func (p *peer) done() bool {
	return p.hostEOF && p.read == p.sndEnd-1 && p.rcvNxt == p.rcvEnd && p.sndUna == p.sndEnd
}

// disturb loses, repeats and reorders a part of what passes.
func disturb(rng *rand.Rand, percent int, all []segment) []segment {
	var out []segment
	for _, s := range all {
		if rng.IntN(100) < percent {
			continue
		}
		out = append(out, s)
		if rng.IntN(100) < percent {
			out = append(out, s)
		}
	}
	for i := 1; i < len(out); i++ {
		if rng.IntN(100) < percent {
			out[i], out[i-1] = out[i-1], out[i]
		}
	}
	return out
}

// TestEveryByteUnderLoss: streams in both directions of several flows, with
// loss, repetition and reordering, windows that close for seconds, a ring that
// runs empty: every byte comes once and in its place, and every flow ends.
func TestEveryByteUnderLoss(t *testing.T) {
	for seed := range uint64(12) {
		s := setup{noPeekOffset: seed%4 == 3, bufferBytes: 1526, buffers: 64}
		if seed%2 == 1 {
			s.features = allOffloads
		}
		percent := int(seed % 6)
		t.Run(fmt.Sprintf("seed %d, %d percent", seed, percent), func(t *testing.T) {
			lossy(t, s, rand.New(rand.NewPCG(seed, 3)), percent, nil)
		})
	}
}

// lossy runs the streams. With bigBytes they are longer and the windows wide enough
// for big frames, of which the guest drops those that refuse says.
func lossy(t *testing.T, s setup, rng *rand.Rand, percent int, refuse func(segment) bool) Counters {
	x := newScript(t, s)
	scale := 1
	if s.bigBytes > 0 {
		scale = 6
	}
	var peers []*peer
	for n := 1; n <= 3; n++ {
		options := ""
		if n > 1 {
			options = "sackok"
		}
		x.step(fmt.Sprintf("guest:%d opens mss %d wscale 4 win 65520 %s", n, peerMSS, options))
		p := &peer{
			x: x, rng: rng, n: n, sack: n > 1, conn: rawConn(t, x.hosts[n].conn),
			sndUna: 1, sndNxt: 1, sndEnd: 2 + uint32(rng.IntN(400_000)), window: 65000,
			rcvNxt: 1, offer: uint32(65520 * scale), written: 1, writeEnd: 1 + uint32(rng.IntN(400_000*scale)), read: 1,
			scale: uint32(scale), refuse: refuse,
		}
		p.rcvEnd = p.writeEnd + 1
		peers = append(peers, p)
	}
	start := x.link.NowMs
	for idle := 0; x.h.NumFlows() > 0 || slices.ContainsFunc(peers, func(p *peer) bool { return !p.done() }); {
		if x.link.NowMs-start > 900_000 {
			for _, p := range peers {
				t.Logf("flow %d: guest sent %d of %d, host read %d (end %v); host wrote %d of %d, guest has %d",
					p.n, p.sndUna, p.sndEnd, p.read, p.hostEOF, p.written, p.writeEnd, p.rcvNxt)
			}
			t.Fatal("streams do not end")
		}
		busy := x.exchange(rng, peers, percent)
		if rng.IntN(50) == 0 {
			x.ring.empty()
		} else if !x.ring.refill && rng.IntN(5) == 0 {
			x.ring.full()
		}
		if busy {
			idle = 0
		} else if idle++; idle > 2 {
			x.link.NowMs += 5 + int64(rng.IntN(50))
		}
	}
	t.Logf("%.1f s of the clock, %+v", float64(x.link.NowMs-start)/1000, x.h.Counters)
	x.got = nil
	return x.h.Counters
}

// exchange lets every side have a turn.
func (x *script) exchange(rng *rand.Rand, peers []*peer, percent int) (busy bool) {
	x.got = x.got[:0]
	busy = x.turn(0)
	x.collect()
	for _, s := range disturb(rng, percent, x.got) {
		busy = true
		if p := peers[s.flow-1]; p.refuse == nil || !p.refuse(s) {
			p.receive(s)
		}
	}
	x.got = x.got[:0]
	for _, p := range peers {
		if p.reset {
			x.fail("flow %d is reset", p.n)
		}
		busy = p.host() || busy
		p.timer()
		p.send()
		for _, s := range disturb(rng, percent, p.out) {
			x.fromGuest(x.frame(x.guests[p.n], p.n, s))
			busy = true
		}
		p.out = p.out[:0]
	}
	x.h.EndBatch()
	return busy
}
