package synth

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// incoming is a received TCP segment.
type incoming struct {
	seq, ack uint32
	window   uint32
	flags    uint8
	n        int // payload bytes
}

// tcp handles a segment from src: t are its headers, at least 20 bytes, and total
// is its length with the payload.
func (g *Guest) tcp(src uint32, t []byte, total int) {
	hdr := int(t[12]>>4) * 4
	if hdr < header.TCPLen || hdr > total || hdr > len(t) {
		g.Counters.Ignored++
		return
	}
	in := incoming{
		seq: binary.BigEndian.Uint32(t[4:]), ack: binary.BigEndian.Uint32(t[8:]),
		window: uint32(binary.BigEndian.Uint16(t[14:])), flags: t[13], n: total - hdr,
	}
	key := makeKey(src, binary.BigEndian.Uint16(t), binary.BigEndian.Uint16(t[2:]))
	c := g.conns.find(key)
	if c == nil {
		g.stray(key, t[:hdr], &in)
		return
	}
	if c.has(over) {
		return
	}
	var what Event
	switch c.state {
	case synSent:
		what = g.answered(c, t[:hdr], &in)
	case synReceived:
		if in.flags&flagSyn != 0 {
			c.set(needSyn)
			g.conns.work(c)
			return
		}
		if in.flags&flagAck == 0 || in.ack != c.sndNxt {
			return
		}
		c.sndUna = in.ack
		c.set(progress)
		c.state = established
		g.Counters.Opened++
		what = Opened | g.established(c, &in)
	case established:
		what = g.established(c, &in)
	}
	if what != 0 && !c.has(wantReset) {
		g.tell(c, what)
	}
}

// tell calls the handler, and lets go of the connection if it is over.
func (g *Guest) tell(c *Conn, what Event) {
	if what&Reset != 0 {
		g.Counters.Reset++
	}
	if what&Closed != 0 {
		g.Counters.Closed++
	}
	g.cfg.Handler.Event(c, what)
	switch {
	case what&Reset != 0, what&Closed != 0 && !c.has(needAck):
		g.conns.remove(c)
	case what&Closed != 0:
		c.set(over) // behind the last acknowledgement
	}
}

// stray handles a segment of no connection: one that opens one, or a mistake.
func (g *Guest) stray(key uint64, t []byte, in *incoming) {
	if in.flags&(flagSyn|flagAck|flagRst) == flagSyn && g.listens[uint16(key)] {
		c := g.conns.add(key)
		if c == nil {
			g.Counters.Limit++
			return
		}
		g.begin(c, synReceived)
		c.set(accepted)
		g.readSyn(c, t, in)
		return
	}
	if in.flags&flagRst != 0 {
		return
	}
	if in.flags == flagAck && in.n == 0 && g.late[key] > 0 {
		g.late[key]--
		g.Counters.Late++
		return // as in TIME-WAIT
	}
	g.Counters.Unknown++
	s := segment{dst: uint32(key >> 32), dstPort: uint16(key >> 16), srcPort: uint16(key), flags: flagRst, seq: in.ack}
	if in.flags&flagAck == 0 {
		s.flags, s.ack = flagRst|flagAck, in.seq+uint32(in.n)+1
	}
	_, _ = g.sendTCP(&s) // lost if the ring is full, as on a full link
}

// answered handles the answer to our SYN.
func (g *Guest) answered(c *Conn, t []byte, in *incoming) Event {
	if in.flags&flagAck == 0 || in.ack != c.sndNxt {
		return 0
	}
	if in.flags&flagRst != 0 {
		return Reset
	}
	if in.flags&flagSyn == 0 {
		return 0
	}
	g.readSyn(c, t, in)
	c.sndUna = in.ack
	c.state = established
	c.set(needAck | ackFirst | progress)
	g.conns.work(c)
	g.Counters.Opened++
	return Opened
}

// readSyn takes over what the other side's SYN says (RFC 9293 section 3.2, RFC
// 7323 section 2.2).
func (g *Guest) readSyn(c *Conn, t []byte, in *incoming) {
	c.rcvNxt = in.seq + 1
	c.sndWnd = in.window
	for o := t[header.TCPLen:]; len(o) > 0 && o[0] != 0; {
		if o[0] == 1 {
			o = o[1:]
			continue
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			break
		}
		switch {
		case o[0] == 2 && o[1] == 4:
			c.mss = binary.BigEndian.Uint16(o[2:])
		case o[0] == 3 && o[1] == 3:
			c.shift = min(o[2], 14)
			c.set(scaled)
		}
		o = o[o[1]:]
	}
	c.mss = min(c.mss, uint16(g.frames.mss))
}

// established handles a segment of an established connection and returns what
// came of it.
func (g *Guest) established(c *Conn, in *incoming) (what Event) {
	if in.flags&flagRst != 0 {
		return Reset
	}
	if in.flags&flagSyn != 0 {
		g.oweAck(c) // of a repeated SYN-ACK
		return 0
	}
	if in.flags&flagAck != 0 {
		what |= g.acknowledged(c, in)
	}
	what |= g.arrived(c, in)
	if c.has(finAcked) && c.has(peerFin) {
		what |= Closed
	}
	return what
}

// acknowledged handles the acknowledgement and window of a segment.
func (g *Guest) acknowledged(c *Conn, in *incoming) (what Event) {
	if before(in.ack, c.sndUna) || before(c.sndMax, in.ack) {
		return 0
	}
	window := in.window << c.shift
	switch {
	case in.ack != c.sndUna:
		c.sndUna = in.ack
		if before(c.sndNxt, in.ack) {
			c.sndNxt = in.ack
		}
		c.dupAcks = 0
		c.set(progress)
		if c.has(finSent) && in.ack == c.sndMax {
			c.set(finAcked)
		}
		if c.toSend == 0 && in.ack == c.sndMax && !c.has(toldAcked) {
			c.set(toldAcked)
			what |= Acked
		}
	case in.n == 0 && in.flags&flagFin == 0 && window == c.sndWnd && c.sndMax != c.sndUna:
		if c.dupAcks < math.MaxUint8 {
			c.dupAcks++
		}
		switch c.dupAcks {
		case 1:
			g.suspect(c)
		case dupThreshold:
			g.goBack(c)
		}
	}
	c.sndWnd = window
	if c.toSend > 0 || c.sndNxt != c.sndMax {
		g.conns.work(c)
	}
	return what
}

// dupThreshold is how many duplicate acknowledgements make us send again (RFC
// 5681 section 3.2). A backend that took less than it was sent may make fewer:
// after the first one, silence for tailLoss says the same, as Linux' tail loss
// probe has it (RFC 8985 section 7).
const (
	dupThreshold = 3
	tailLoss     = 2 * time.Millisecond
)

// goBack sends everything again that is not acknowledged.
func (g *Guest) goBack(c *Conn) {
	if c.sndNxt != c.sndUna {
		c.sndNxt = c.sndUna
		g.again(c)
	}
}

// again sends something of c a second time. Both may be answered, the second one when the connection is over.
func (g *Guest) again(c *Conn) {
	g.Counters.Resent++
	g.late[c.key]++
	g.conns.work(c)
}

// arrived handles the payload and FIN of a segment.
func (g *Guest) arrived(c *Conn, in *incoming) (what Event) {
	fin := in.flags&flagFin != 0
	if in.n == 0 && !fin && in.seq == c.rcvNxt {
		return 0
	}
	g.oweAck(c)
	if before(c.rcvNxt, in.seq) {
		g.Counters.OutOfOrder++
		return 0
	}
	n := in.n - int(c.rcvNxt-in.seq)
	if n < 0 || n == 0 && !fin {
		return 0 // all of it was here before, or it is a probe
	}
	c.rcvNxt += uint32(n)
	c.Received += uint64(n)
	g.Counters.BytesReceived += uint64(n)
	if n > 0 {
		what |= Received
	}
	if fin {
		c.rcvNxt++
		c.set(peerFin)
		what |= PeerEnded
	}
	return what
}

func (g *Guest) oweAck(c *Conn) {
	c.set(needAck)
	g.conns.work(c)
}
