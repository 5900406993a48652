package longpath

import (
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// maxFrame is more than any MTU that a tap device takes here.
	maxFrame = 16 << 10
	// maxUnderWay is how many frames a direction can hold: 1 Gbit/s over 200 ms in frames of 1500 bytes are 16 700.
	maxUnderWay = 1 << 17
)

// frame is on its way.
type frame struct {
	at   time.Time
	data []byte
}

// line is one direction.
type line struct {
	underWay              chan frame
	free                  chan []byte
	random                *rand.Rand
	passed, lost, dropped atomic.Int64

	// Of the reader only.
	sent    time.Time // when the last frame has left the queue
	arrival time.Time // of the last frame
}

func newLine(seed uint64) *line {
	return &line{
		underWay: make(chan frame, maxUnderWay), free: make(chan []byte, 1024), random: rand.New(rand.NewPCG(seed, 1)),
	}
}

func (l *line) counters() Counters {
	return Counters{Passed: l.passed.Load(), Lost: l.lost.Load(), Dropped: l.dropped.Load()}
}

// arrive says when a frame of n bytes that comes now arrives; ok is false if it does not.
func (l *line) arrive(c *Config, now time.Time, n int) (at time.Time, ok bool) {
	if l.sent.Before(now) {
		l.sent = now
	}
	if c.Queue > 0 && l.sent.Sub(now) > c.Queue {
		l.dropped.Add(1)
		return at, false
	}
	if c.BitsPerSecond > 0 {
		l.sent = l.sent.Add(time.Duration(int64(n) * 8 * int64(time.Second) / c.BitsPerSecond))
	}
	if c.Loss > 0 && l.random.Float64() < c.Loss {
		l.lost.Add(1)
		return at, false
	}
	at = l.sent.Add(c.Delay)
	if at.Before(l.arrival) {
		at = l.arrival // the path became shorter; still nothing overtakes
	}
	l.arrival = at
	return at, true
}

// read takes frames from their sender until that is closed.
func (l *line) read(from io.Reader, config *atomic.Pointer[Config]) {
	defer close(l.underWay)
	var buf []byte
	for {
		if buf == nil {
			select {
			case buf = <-l.free:
			default:
				buf = make([]byte, maxFrame)
			}
		}
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		at, ok := l.arrive(config.Load(), time.Now(), n)
		if !ok {
			continue
		}
		// A copy where it is short, so that the many acknowledgements under way take little memory.
		f := frame{at, buf[:n]}
		if n < maxFrame/8 {
			f.data = append([]byte(nil), buf[:n]...)
		} else {
			buf = nil
		}
		select {
		case l.underWay <- f:
		default:
			l.dropped.Add(1)
		}
	}
}

// write delivers frames when their time has come.
func (l *line) write(to io.Writer) {
	for f := range l.underWay {
		if d := time.Until(f.at); d > 0 {
			time.Sleep(d)
		}
		// A device that is down takes nothing, like a cable that is not plugged in.
		if _, err := to.Write(f.data); err == nil {
			l.passed.Add(1)
		}
		if cap(f.data) == maxFrame {
			select {
			case l.free <- f.data[:maxFrame]:
			default:
			}
		}
	}
}
