package tcp

import (
	"net"
	"testing"
	"time"
)

// fuzzWorld is a world in which guest and host do anything.
type fuzzWorld struct {
	*script
	conns []*net.TCPConn
	data  []byte
}

// next takes a byte of the input; at its end it is 0.
func (x *fuzzWorld) next() byte {
	if len(x.data) == 0 {
		return 0
	}
	b := x.data[0]
	x.data = x.data[1:]
	return b
}

// near returns a sequence number near at: mostly at it.
func (x *fuzzWorld) near(at uint32) uint32 {
	switch b := x.next(); {
	case b < 160:
		return at
	case b < 200:
		return at + uint32(int8(x.next()))
	case b < 230:
		return at + uint32(int8(x.next()))*1000
	case b < 250:
		return at + uint32(int8(x.next()))<<20
	default:
		return at + uint32(x.next())<<24
	}
}

// segment sends a segment of flow n that may or may not make sense.
func (x *fuzzWorld) segment(n int) {
	g := x.guest(n)
	k := x.key(n)
	s := segment{flags: flagNames(x.next()), mss: -1, wscale: -1, win: 65535}
	seq, ack := g.isn, g.backISN
	if i, ok := x.h.table.Lookup(&k); ok {
		f := x.h.flows.at(i)
		seq, ack = f.rcvNxt, f.sndMax
		if x.next() > 200 {
			ack = f.sndUna
		}
	}
	s.seq, s.ack = x.near(seq)-g.isn, x.near(ack)-g.backISN
	s.end = s.seq + uint32(x.next())*uint32(x.next()%16)
	switch x.next() % 8 {
	case 0:
		s.win = 0
	case 1:
		s.win = int(x.next())
	case 2:
		s.mss, s.wscale, s.sackOK = int(x.next())<<3, int(x.next()%16), x.next() > 80
	case 3:
		for range 1 + x.next()%4 {
			left := x.near(ack) - g.backISN
			s.sack = append(s.sack, [2]uint32{left, left + uint32(x.next())<<(x.next()%16)})
		}
	}
	g.shift = 0
	x.fromGuest(x.frame(g, n, s))
}

// host does something with a connection of the host.
func (x *fuzzWorld) host() {
	what := x.next()
	if what%4 == 0 || len(x.conns) == 0 {
		l := x.listener.(*net.TCPListener)
		if err := l.SetDeadline(time.Now().Add(200 * time.Microsecond)); err != nil {
			x.Fatal(err)
		}
		if c, err := l.Accept(); err == nil {
			x.conns = append(x.conns, c.(*net.TCPConn))
		}
		return
	}
	c := x.conns[int(x.next())%len(x.conns)]
	_ = c.SetDeadline(time.Now().Add(time.Millisecond))
	switch what >> 2 % 8 {
	case 0, 1, 2:
		_, _ = c.Write(make([]byte, int(x.next())*64))
	case 3, 4:
		_, _ = c.Read(make([]byte, 1<<16))
	case 5:
		_ = c.CloseWrite()
	case 6:
		_ = c.Close()
	case 7:
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}

func (x *fuzzWorld) step() {
	switch b := x.next(); {
	case b < 170:
		x.segment(int(b % 3))
		if b&64 != 0 {
			x.h.EndBatch()
		}
	case b < 210:
		x.host()
	case b < 230:
		x.h.EndBatch()
		x.turn(0)
	case b < 240:
		x.h.EndBatch()
		x.turn(0)
		x.link.NowMs += int64(x.next()) << (x.next() % 16)
		x.turn(0)
	case b < 246:
		x.h.EndBatch()
		x.q.Flush()
		x.ring.empty()
	case b < 252:
		x.ring.full()
	case b < 254:
		x.h.Fault()
	default:
		x.link.MTU = 68 + int(x.next())<<8
	}
}

// FuzzSegments hands a guest's segments to the handler, sensible or not, with a
// host that does what it likes. The checks at the end of a turn have to hold,
// and nothing may be left at the end.
func FuzzSegments(f *testing.F) {
	f.Add(uint8(0), []byte{})
	// A handshake, some data, FIN.
	handshake := []byte{64, 2, 0, 0, 0, 0, 0, 210, 64, 16, 0, 0, 0, 0, 0, 170, 0, 64, 24, 0, 0, 0, 100, 1, 5, 210}
	f.Add(uint8(1), append(handshake, 64, 17, 0, 0, 0, 0, 0, 7, 210, 170, 4, 0, 9, 210))
	f.Add(uint8(2), append(handshake, 171, 4, 0, 200, 210, 241, 171, 8, 0, 10, 210, 230, 255, 9, 247, 210))
	f.Add(uint8(3), append(handshake, 64, 4, 0, 0, 0, 0, 0, 7, 210))
	f.Add(uint8(7), append(append(handshake, handshake...), 171, 28, 0, 230, 200, 12, 252, 210))
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		s := setup{noPeekOffset: kind&1 != 0, notMergeable: kind&2 != 0, v6: kind&4 != 0}
		if kind&8 != 0 {
			s.features = allOffloads
		}
		if kind&16 != 0 {
			s.maxFlows = 2
		}
		start := openFiles(t)
		x := &fuzzWorld{script: newScript(t, s), data: data}
		for len(x.data) > 0 {
			x.step()
		}
		x.h.EndBatch()
		x.turn(0)
		x.close()
		for _, c := range x.conns {
			c.Close()
		}
		if n := openFiles(t); n > start {
			t.Errorf("%d descriptors, %d at the start", n, start)
		}
	})
}
