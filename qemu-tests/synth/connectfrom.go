package synth

import "net/netip"

// ConnectFrom is Connect from a given local port, which may be used again as soon as the connection before has ended. As
// from a guest whose initial sequence numbers follow a clock (RFC 9293 section 3.4.1), the number of each connection lies behind
// those of the one before.
func (g *Guest) ConnectFrom(local uint16, addr netip.Addr, port uint16) (*Conn, error) {
	key := makeKey(word(addr), port, local)
	if g.conns.find(key) != nil || g.listens[local] {
		return nil, ErrPorts
	}
	c := g.conns.add(key)
	if c == nil {
		return nil, ErrConns
	}
	g.begin(c, synSent)
	c.sndUna = g.serial<<16 | 0xffff
	c.sndNxt, c.sndMax = c.sndUna, c.sndUna
	return c, nil
}
