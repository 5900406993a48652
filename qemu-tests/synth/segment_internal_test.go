package synth

import (
	"testing"
	"time"
)

type deaf struct{ events []Event }

func (d *deaf) Event(_ *Conn, what Event) { d.events = append(d.events, what) }

// bare is a guest without rings, with one established connection.
func bare() (*Guest, *Conn, *deaf) {
	d := &deaf{}
	g := &Guest{cfg: Config{Handler: d, Patience: 2 * lookEvery}, late: map[uint64]uint8{}}
	g.conns.init(4)
	g.clock.now = time.Unix(1000, 0)
	c := g.conns.add(makeKey(1, 2, 3))
	c.state, c.mss = established, 1000
	c.sndUna, c.sndNxt, c.sndMax, c.rcvNxt, c.sndWnd = 5000, 9000, 9000, 100, 10_000
	return g, c, d
}

func TestArrived(t *testing.T) {
	for _, tt := range []struct {
		name     string
		in       incoming
		what     Event
		received uint64
		ack      bool
	}{
		{"in order", incoming{seq: 100, n: 50}, Received, 50, true},
		{"overlapping", incoming{seq: 90, n: 50}, Received, 40, true},
		{"all of it old", incoming{seq: 50, n: 50}, 0, 0, true},
		{"behind a gap", incoming{seq: 101, n: 50}, 0, 0, true},
		{"keepalive", incoming{seq: 99}, 0, 0, true},
		{"pure acknowledgement", incoming{seq: 100}, 0, 0, false},
		{"fin", incoming{seq: 100, n: 50, flags: flagFin}, Received | PeerEnded, 50, true},
		{"fin again", incoming{seq: 99, flags: flagFin}, 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, c, _ := bare()
			if what := g.arrived(c, &tt.in); what != tt.what {
				t.Errorf("events %b, want %b", what, tt.what)
			}
			if c.Received != tt.received || c.has(needAck) != tt.ack {
				t.Errorf("received %d, ack %v; want %d, %v", c.Received, c.has(needAck), tt.received, tt.ack)
			}
		})
	}
}

func TestAcknowledged(t *testing.T) {
	g, c, _ := bare()
	ack := func(n, window uint32) Event {
		return g.acknowledged(c, &incoming{ack: n, window: window, flags: flagAck})
	}
	ack(4000, 7) // old
	ack(9001, 7) // of what was never sent
	if c.sndUna != 5000 || c.sndWnd != 10_000 {
		t.Fatalf("una %d, window %d after acknowledgements that do not count", c.sndUna, c.sndWnd)
	}
	ack(5000, 10_000)
	ack(5000, 10_000)
	if c.sndNxt != 9000 {
		t.Fatal("went back after two duplicates")
	}
	ack(5000, 10_000)
	if c.sndNxt != 5000 || g.Counters.Resent != 1 {
		t.Fatalf("next %d after three duplicates, want 5000", c.sndNxt)
	}
	if what := ack(9000, 10_000); what != Acked || c.sndNxt != 9000 {
		t.Errorf("events %b, next %d after the last acknowledgement", what, c.sndNxt)
	}
}

// One duplicate and silence mean a loss too.
func TestSuspect(t *testing.T) {
	g, c, _ := bare()
	g.acknowledged(c, &incoming{ack: 5000, window: 10_000, flags: flagAck})
	g.checkSuspects()
	if c.sndNxt != 9000 {
		t.Fatal("went back at once")
	}
	if d := g.nextCheck(); d > 2*tailLoss {
		t.Errorf("next look in %v", d)
	}
	g.clock.now = g.clock.now.Add(tailLoss)
	g.checkSuspects()
	if c.sndNxt != 5000 || g.nextCheck() != lookEvery {
		t.Errorf("next %d, next look in %v", c.sndNxt, g.nextCheck())
	}
}

func TestNextPart(t *testing.T) {
	for _, tt := range []struct {
		name         string
		toSend       uint64
		window       uint32 // beyond sndNxt
		flight       bool
		n, left      int
		fin, wantFin bool
	}{
		{"all", 300, 5000, true, 300, 300, false, false},
		{"all with fin", 300, 5000, true, 300, 300, true, true},
		{"whole segments", 9000, 3500, true, 3000, 9000, false, false},
		{"the most", 9000, 60_000, true, 4000, 9000, false, true},
		{"silly window", 9000, 500, true, 0, 9000, false, false},
		{"small window, nothing in flight", 9000, 500, false, 500, 9000, false, false},
		{"closed window", 9000, 0, false, 0, 9000, false, true},
		{"nothing", 0, 5000, true, 0, 0, false, false},
		{"fin alone", 0, 5000, true, 0, 0, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, c, _ := bare()
			if !tt.flight {
				c.sndUna = c.sndNxt
			}
			c.sndWnd = c.sndNxt - c.sndUna + tt.window
			c.toSend = tt.toSend
			if tt.wantFin {
				c.set(wantFin)
			}
			n, left, fin := c.nextPart(1000, 4000)
			if n != tt.n || left != tt.left || fin != tt.fin {
				t.Errorf("nextPart = %d, %d, %v; want %d, %d, %v", n, left, fin, tt.n, tt.left, tt.fin)
			}
		})
	}
}

// A connection in the list of work is freed only when the list comes to it.
func TestTable(t *testing.T) {
	var table connTable
	table.init(2)
	a, b := table.add(1), table.add(2)
	a.state, b.state = established, established
	if table.add(3) != nil {
		t.Fatal("more connections than places")
	}
	table.work(a)
	table.work(b)
	table.work(a)
	table.remove(a)
	if table.find(1) != nil || table.add(3) != nil {
		t.Fatal("the place of a connection with work was given away")
	}
	if got := table.pop(); got != b {
		t.Fatalf("popped %v, want b", got)
	}
	if table.pop() != nil {
		t.Error("there is more work")
	}
	c := table.add(3)
	if c == nil || c.key != 3 || table.find(3) != c {
		t.Error("the place was not given to the next connection")
	}
	c.state = established
	table.pushFront(c)
	if table.pop() != c || table.pop() != nil {
		t.Error("what was put back did not come back once")
	}
}

// TestLateAcknowledgement: what was sent twice is acknowledged twice, and the guest has no TIME-WAIT.
func TestLateAcknowledgement(t *testing.T) {
	g, c, _ := bare()
	key := c.key
	g.goBack(c)
	g.conns.pop()
	g.conns.remove(c)
	g.stray(key, nil, &incoming{flags: flagAck, seq: 100, ack: 9000})
	if got := g.Counters; got.Late != 1 || got.Unknown != 0 || got.Resent != 1 || g.late[key] != 0 {
		t.Errorf("%+v, %d more are due", got, g.late[key])
	}
	g.late[key] = 1
	next := g.conns.add(key)
	g.begin(next, synSent)
	if len(g.late) != 0 {
		t.Error("a new connection takes the old one's acknowledgements for late")
	}
}
