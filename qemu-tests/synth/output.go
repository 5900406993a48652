package synth

import "encoding/binary"

const (
	// framesATurn bounds what one connection sends before the others.
	framesATurn = 16
	// maxTSO is the most payload of a frame that the device cuts.
	maxTSO = 65535 - 40
)

// transmit lets the connections that have something to send do so.
func (g *Guest) transmit() error {
	for {
		c := g.conns.pop()
		if c == nil {
			return nil
		}
		room, err := g.output(c)
		if err != nil {
			return err
		}
		if !room {
			g.conns.pushFront(c)
			return nil
		}
	}
}

// output sends what c has. It reports false if the ring is full.
func (g *Guest) output(c *Conn) (room bool, err error) {
	if c.has(wantReset) {
		if room, err = g.emit(c, flagRst|flagAck, c.sndNxt, 0); room {
			g.conns.remove(c)
		}
		return room, err
	}
	if c.has(needSyn) {
		if room, err = g.syn(c); !room || err != nil {
			return room, err
		}
	}
	if c.state != established {
		return true, nil
	}
	if c.has(ackFirst) {
		if room, err = g.emit(c, flagAck, c.sndNxt, 0); !room || err != nil {
			return room, err
		}
		c.clear(ackFirst)
	}
	if room, err = g.data(c); !room || err != nil {
		return room, err
	}
	if c.has(needAck) {
		if room, err = g.emit(c, flagAck, c.sndNxt, 0); !room || err != nil {
			return room, err
		}
	}
	if c.has(over) {
		g.conns.remove(c)
	}
	return true, nil
}

// syn sends SYN or SYN-ACK with the options that we understand.
func (g *Guest) syn(c *Conn) (room bool, err error) {
	options := &g.tx.options
	*options = [8]byte{2, 4, 0, 0, 1, 3, 3, g.wscale}
	binary.BigEndian.PutUint16(options[2:], uint16(g.frames.mss))
	s := &g.tx.seg
	*s = segment{
		dst: c.remote(), dstPort: c.remotePort(), srcPort: c.LocalPort(), seq: c.sndUna, flags: flagSyn,
		window: uint16(min(g.cfg.WindowBytes, 0xffff)), options: options[:4],
	}
	if c.state == synReceived {
		s.flags, s.ack = flagSyn|flagAck, c.rcvNxt
	}
	if c.state == synSent || c.has(scaled) {
		s.options = options[:8]
	}
	if room, err = g.sendTCP(s); room {
		c.clear(needSyn)
		c.sndNxt = c.sndUna + 1
		c.sndMax = c.sndNxt
	}
	return room, err
}

// data sends what the window allows, and FIN behind the last of it.
func (g *Guest) data(c *Conn) (room bool, err error) {
	mss := int(c.mss)
	most := mss
	if g.frames.tso {
		most = max(maxTSO-maxTSO%mss, mss)
	}
	for range framesATurn {
		n, left, fin := c.nextPart(mss, most)
		if n == 0 && !fin {
			return true, nil
		}
		flags := uint8(flagAck)
		if n == left {
			flags |= flagPsh
		}
		if fin = fin && n <= mss; fin {
			flags |= flagFin
		}
		if room, err = g.emit(c, flags, c.sndNxt, n); !room || err != nil {
			return room, err
		}
		c.moveOn(n, fin)
	}
	g.conns.work(c)
	return true, nil
}

// dataEnd is the sequence number behind the last byte ever sent.
func (c *Conn) dataEnd() uint32 {
	if c.has(finSent) {
		return c.sndMax - 1
	}
	return c.sndMax
}

// nextPart says how many bytes to send now, of how many that are left, and whether
// FIN follows them.
func (c *Conn) nextPart(mss, most int) (n, left int, fin bool) {
	if c.has(finSent) && c.sndNxt == c.sndMax {
		return 0, 0, false
	}
	again := int(c.dataEnd() - c.sndNxt)
	left = again + int(min(c.toSend, 1<<40))
	window := int(int32(c.sndUna + c.sndWnd - c.sndNxt))
	if c.has(probe) {
		c.clear(probe)
		window = max(window, 1)
	}
	n = max(min(left, window, most), 0)
	if n < left {
		// Silly windows: wait for room worth a segment (RFC 1122, 4.2.3.4).
		if n < mss && c.sndNxt != c.sndUna {
			return 0, left, false
		}
		if n > mss {
			n -= n % mss
		}
	}
	return n, left, n == left && c.has(wantFin)
}

// moveOn notes that n bytes, and FIN, were sent.
func (c *Conn) moveOn(n int, fin bool) {
	end := c.dataEnd()
	c.sndNxt += uint32(n)
	if before(end, c.sndNxt) {
		c.toSend -= uint64(c.sndNxt - end)
		c.sndMax = c.sndNxt
	}
	if fin {
		c.sndNxt++
		c.set(finSent)
		c.sndMax = c.sndNxt
	}
}

// emit sends one segment with n bytes of the stream, which acknowledges what
// there is to acknowledge.
func (g *Guest) emit(c *Conn, flags uint8, seq uint32, n int) (room bool, err error) {
	s := &g.tx.seg
	*s = segment{
		dst: c.remote(), dstPort: c.remotePort(), srcPort: c.LocalPort(),
		seq: seq, ack: c.rcvNxt, flags: flags, window: g.window, mss: int(c.mss), place: int(uint16(seq)), n: n,
	}
	if !c.has(scaled) {
		s.window = uint16(min(g.cfg.WindowBytes, 0xffff))
	}
	if room, err = g.sendTCP(s); room {
		c.clear(needAck)
	}
	return room, err
}
