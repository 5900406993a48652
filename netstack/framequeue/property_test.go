package framequeue

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// model is a random use of a queue, with what has to come out of it.
type model struct {
	*rig
	rng    *rand.Rand
	id     uint32
	want   [][]byte // frames in the order of their making
	came   int
	maxBuf int
	minBuf int
	most   int // bytes that a frame is begun for
	posted int // buffers at a time
}

func (m *model) size() int { return m.minBuf + m.rng.IntN(m.maxBuf-m.minBuf+1) }

// buffers adds a few buffers of random sizes, split at random.
func (m *model) buffers() {
	for range 1 + m.rng.IntN(m.posted) {
		n := m.size()
		var sizes []int
		for n > 0 && len(sizes) < 5 {
			part := 1 + m.rng.IntN(n)
			if len(sizes) == 4 {
				part = n
			}
			sizes = append(sizes, part)
			n -= part
		}
		m.give(sizes...)
	}
	if m.q.Starved() && m.rng.IntN(3) > 0 {
		m.q.Refill()
	}
}

// flag pushes a frame, which counts as made unless it was dropped.
func (m *model) flag() {
	m.id++
	f := numbered(m.id, 54+m.rng.IntN(40))
	if m.q.Push(header.Vnet{}, f) {
		m.want = append(m.want, f)
	}
}

// burst opens frames, fills a part of what they hold, and ends as many as that
// takes: what one system call does.
func (m *model) burst() {
	const hdr = 66
	var rooms []int
	total := 0
	for range 1 + m.rng.IntN(6) {
		ask := 1 + m.rng.IntN(m.most)
		room := m.q.Begin(hdr, ask)
		if room < 0 || room > ask {
			m.t.Fatalf("room %d of %d", room, ask)
		}
		if room == 0 {
			break
		}
		rooms = append(rooms, room)
		total += room
	}
	if iov.Len(m.q.Payload()) != total {
		m.t.Fatalf("payload of %d bytes, rooms of %d", iov.Len(m.q.Payload()), total)
	}
	if total == 0 || m.rng.IntN(8) == 0 {
		m.q.Cancel()
		return
	}
	n := total
	if m.rng.IntN(2) == 0 {
		n = m.rng.IntN(total + 1)
	}
	off := 0
	payload := append([]iov.Vec(nil), m.q.Payload()...)
	for _, room := range rooms {
		k := min(room, n-off)
		if k == 0 {
			break
		}
		m.id++
		f := numbered(m.id, hdr+k)
		iov.CopyIn(payload, off, f[hdr:])
		off += k
		m.q.End(k, header.Vnet{}, f[:hdr])
		m.want = append(m.want, f)
	}
	m.q.Cancel()
}

// check compares what has come with what was made.
func (m *model) check() {
	for _, g := range m.take() {
		if m.came == len(m.want) {
			m.t.Fatal("a frame that nobody made")
		}
		if w := m.want[m.came]; !bytes.Equal(g.frame, w) {
			m.t.Fatalf("frame %d has id %d and %d bytes, want %d and %d", m.came,
				binary.LittleEndian.Uint32(g.frame), len(g.frame), binary.LittleEndian.Uint32(w), len(w))
		}
		m.came++
	}
}

// TestOrderUnderRandomUse is the queue's promise: whatever is made, in whatever
// order payload and flags alternate, and however the ring starves, the driver
// sees every frame once, whole, and in the order of making.
func TestOrderUnderRandomUse(t *testing.T) {
	steps := 3000
	if testing.Short() {
		steps = 500
	}
	for seed := range uint64(24) {
		mergeable, eventIdx := seed%2 == 0, seed%4 < 2
		minBuf, maxBuf := 12, 150 // tiny
		switch seed % 3 {
		case 1:
			minBuf, maxBuf = 200, 1600
		case 2:
			minBuf, maxBuf = 1526, 5000
		}
		size := uint16(1) << (3 + seed%5)
		most, posted := 3000, 8
		if big := seed >= 18; big { // BIG TCP, over rings that hold such frames and those that do not
			most, posted, size = 512<<10, 100, uint16(1)<<(6+seed%5)
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := &model{
				rig: newRig(t, size, eventIdx, mergeable),
				rng: rand.New(rand.NewPCG(seed, 7)), minBuf: minBuf, maxBuf: maxBuf, most: most, posted: posted,
			}
			for range steps {
				switch m.rng.IntN(10) {
				case 0, 1, 2:
					m.buffers()
				case 3, 4, 5:
					m.flag()
				case 6, 7, 8:
					m.burst()
				default:
					m.q.Flush()
				}
				if m.rng.IntN(4) == 0 {
					m.check()
				}
			}
			m.drain()
		})
	}
}

// drain gives buffers until nothing waits any more, then checks that nothing is
// lost and no buffer is held.
func (m *model) drain() {
	for range 10000 {
		m.buffers()
		if m.q.Starved() {
			m.q.Refill()
		}
		m.q.Flush()
		m.check()
		if m.came == len(m.want) {
			break
		}
	}
	if m.came != len(m.want) {
		m.t.Fatalf("%d of %d frames came", m.came, len(m.want))
	}
	if n := m.dev.Outstanding(); n != 0 {
		m.t.Errorf("%d buffers are held", n)
	}
}
