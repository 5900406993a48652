package synth

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// ErrTimeout says that what Run waited for did not happen in time.
var ErrTimeout = errors.New("synth: not in time")

// lookEvery is the distance of looks at connections that wait.
const lookEvery = 100 * time.Millisecond

// clock is the time of the loop.
type clock struct {
	now      time.Time
	nextLook time.Time
	fds      []unix.PollFd // the rings' calls, and what Watch was given
	sleep    unix.Timespec // scratch of Sleep
	call     [8]byte
	suspects []suspicion // in the order of their times
}

// suspicion is a connection that got a duplicate acknowledgement, and when that
// means a loss.
type suspicion struct {
	conn int32
	una  uint32
	at   time.Time
}

// Watch makes Run wake up when fd is readable, or ended.
func (g *Guest) Watch(fd int) {
	g.clock.fds = append(g.clock.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
}

// Unwatch ends Watch.
func (g *Guest) Unwatch(fd int) {
	for i := range g.clock.fds {
		if g.clock.fds[i].Fd == int32(fd) {
			g.clock.fds = append(g.clock.fds[:i], g.clock.fds[i+1:]...)
			return
		}
	}
}

// Poll takes what has arrived, sends what is due, and reports whether there was
// any of it. An error means that the device broke a rule.
func (g *Guest) Poll() (busy bool, err error) {
	g.clock.now = time.Now()
	if g.clock.now.After(g.clock.nextLook) {
		g.clock.nextLook = g.clock.now.Add(lookEvery)
		g.look()
	}
	g.checkSuspects()
	sent := g.Counters.FramesSent
	freed, err := g.tx.reap()
	if err != nil {
		return false, fmt.Errorf("synth: transmit ring: %w", err)
	}
	n, err := g.receive()
	if err != nil {
		return false, fmt.Errorf("synth: receive ring: %w", err)
	}
	if err := g.transmit(); err != nil {
		return false, fmt.Errorf("synth: transmit ring: %w", err)
	}
	if err := g.flush(); err != nil {
		return false, fmt.Errorf("synth: %w", err)
	}
	return freed > 0 || n > 0 || sent != g.Counters.FramesSent, nil
}

// Run polls until done says yes, for at most limit; then it returns ErrTimeout.
func (g *Guest) Run(limit time.Duration, done func() bool) error {
	end := time.Now().Add(limit)
	var idle time.Time // since when nothing has happened
	for {
		busy, err := g.Poll()
		if err != nil {
			return err
		}
		if done() {
			return g.flush()
		}
		now := g.clock.now
		switch {
		case now.After(end):
			return ErrTimeout
		case busy:
			idle = time.Time{}
		case idle.IsZero():
			idle = now
		}
		if !busy && now.Sub(idle) >= g.cfg.Spin {
			if err := g.Sleep(min(end.Sub(now), g.nextCheck())); err != nil {
				return err
			}
		}
	}
}

// Sleep waits until the device calls, a watched descriptor is ready, or timeout
// has passed.
func (g *Guest) Sleep(timeout time.Duration) error {
	rx, tx := g.rx.q, g.tx.q
	if len(g.clock.fds) < 2 || g.clock.fds[0].Fd != int32(rx.CallFD) {
		rings := []unix.PollFd{{Fd: int32(rx.CallFD), Events: unix.POLLIN}, {Fd: int32(tx.CallFD), Events: unix.POLLIN}}
		g.clock.fds = append(rings, g.clock.fds...)
	}
	if g.rx.free > 0 {
		// What little is missing matters to nobody but a device that waits.
		g.rx.free = 0
		if err := g.kick(rx); err != nil {
			return err
		}
	}
	more := rx.EnableCalls()
	if g.tx.full && tx.EnableCallsDelayed() {
		more = true
	}
	if !more {
		g.Counters.Sleeps++
		g.clock.sleep = unix.NsecToTimespec(max(int64(timeout), 0))
		_, err := unix.Ppoll(g.clock.fds, &g.clock.sleep, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("synth: wait for calls: %w", err)
		}
		for _, fd := range g.clock.fds[:2] {
			if fd.Revents != 0 {
				g.Counters.Calls++
				_, _ = unix.Read(int(fd.Fd), g.clock.call[:])
			}
		}
	}
	rx.DisableCalls()
	g.tx.callsOff(g)
	return nil
}

// look finds connections that wait for something which does not come, and
// sends it again: when they have waited as long as the configuration says, then
// twice as long, and so on.
func (g *Guest) look() {
	patience := max(int(g.cfg.Patience/lookEvery), 1)
	for i := range g.conns.slab[:g.conns.high] {
		c := &g.conns.slab[i]
		if c.state == unused || c.has(over) {
			continue
		}
		blocked := c.state == established && c.toSend > 0 && c.sndWnd <= c.sndMax-c.sndUna
		if c.has(progress) || c.sndUna == c.sndMax && !blocked {
			c.clear(progress)
			c.waits = 0
			continue
		}
		if c.waits < math.MaxUint16 {
			c.waits++
		}
		switch {
		case c.state != established:
			if due(int(c.waits), 5*patience) {
				c.set(needSyn)
				g.again(c)
			}
		case !due(int(c.waits), patience):
		case c.sndUna != c.sndMax:
			c.dupAcks = 0
			g.goBack(c)
		default:
			c.set(probe)
			g.conns.work(c)
		}
	}
}

// suspect remembers to look at c soon.
func (g *Guest) suspect(c *Conn) {
	if !c.has(suspect) {
		c.set(suspect)
		g.clock.suspects = append(g.clock.suspects, suspicion{c.self, c.sndUna, g.clock.now.Add(tailLoss)})
	}
}

// checkSuspects sends again what suspects have lost.
func (g *Guest) checkSuspects() {
	n := 0
	for ; n < len(g.clock.suspects) && !g.clock.suspects[n].at.After(g.clock.now); n++ {
		s := &g.clock.suspects[n]
		c := &g.conns.slab[s.conn]
		if !c.has(suspect) {
			continue // another connection has its place
		}
		c.clear(suspect)
		if c.state == established && c.sndUna == s.una && c.sndUna != c.sndMax && c.dupAcks < dupThreshold {
			g.goBack(c)
		}
	}
	g.clock.suspects = g.clock.suspects[:copy(g.clock.suspects, g.clock.suspects[n:])]
}

// nextCheck is how long the loop may sleep.
func (g *Guest) nextCheck() time.Duration {
	if len(g.clock.suspects) == 0 {
		return lookEvery
	}
	return min(max(g.clock.suspects[0].at.Sub(g.clock.now), 0)+time.Microsecond, lookEvery)
}

// due says whether waits is first, twice first, four times first, …
func due(waits, first int) bool {
	n := waits / first
	return waits%first == 0 && n > 0 && n&(n-1) == 0
}

// Idle says that everything was sent and the device is done with it.
func (g *Guest) Idle() bool {
	return g.tx.idle() && g.conns.first < 0
}
