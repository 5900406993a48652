package synth

import (
	"errors"
	"math"
	"net/netip"
)

// Endless given to Send never ends.
const Endless = math.MaxUint64

// state is where a connection is in its life.
type state uint8

const (
	unused state = iota
	synSent
	synReceived
	established
)

// flag is a set of facts about a connection.
type flag uint16

const (
	inWork    flag = 1 << iota // is in the list of those with something to send
	needSyn                    // SYN or SYN-ACK is to be sent
	needAck                    // an acknowledgement is to be sent
	wantFin                    // End was called
	finSent                    // FIN is the last thing before sndMax
	finAcked                   // and was acknowledged
	peerFin                    // the other side's FIN was received
	progress                   // something was acknowledged since the last look
	probe                      // a byte beyond the window is to be sent
	scaled                     // windows are scaled
	accepted                   // the other side began
	wantReset                  // Reset was called
	toldAcked                  // the handler knows that everything is acknowledged
	ackFirst                   // the acknowledgement of SYN-ACK goes alone, as from Linux
	suspect                    // is in the list of those that may have lost something
	over                       // to be freed when the last acknowledgement is sent
)

// Conn is one TCP connection. It belongs to its guest's goroutine.
type Conn struct {
	key    uint64 // see makeKey
	toSend uint64 // bytes given to Send and never sent
	// Received counts the payload bytes that came in order.
	Received uint64
	// Tag is the owner's.
	Tag uint32

	sndUna, sndNxt, sndMax uint32
	sndWnd                 uint32 // bytes
	rcvNxt                 uint32
	self, next             int32 // place in the slab, and next in the list of work
	flags                  flag
	mss                    uint16 // of the other side
	state                  state
	shift                  uint8 // of the windows that come in
	dupAcks                uint8
	waits                  uint16 // looks without progress
}

func (c *Conn) has(f flag) bool { return c.flags&f != 0 }
func (c *Conn) set(f flag)      { c.flags |= f }
func (c *Conn) clear(f flag)    { c.flags &^= f }

// makeKey packs what tells connections apart.
func makeKey(remote uint32, remotePort, localPort uint16) uint64 {
	return uint64(remote)<<32 | uint64(remotePort)<<16 | uint64(localPort)
}

func (c *Conn) remote() uint32     { return uint32(c.key >> 32) }
func (c *Conn) remotePort() uint16 { return uint16(c.key >> 16) }

// LocalPort is the guest's port of the connection.
func (c *Conn) LocalPort() uint16 { return uint16(c.key) }

// Established says whether data can flow both ways; after PeerEnded or End it
// still does.
func (c *Conn) Established() bool { return c.state == established }

// Unacked is how many bytes were sent and not acknowledged.
func (c *Conn) Unacked() int { return int(c.sndMax - c.sndUna) }

// Seq returns the sequence numbers a keepalive or a test needs: the next byte
// to send, and the next to receive.
func (c *Conn) Seq() (snd, rcv uint32) { return c.sndMax, c.rcvNxt }

// Sequence numbers compare modulo 2^32 (RFC 9293 section 3.4).
func before(a, b uint32) bool { return int32(a-b) < 0 }

// firstPort is where local ports begin.
const firstPort = 1024

// errors of Connect.
var (
	ErrConns = errors.New("synth: all connections are in use")
	ErrPorts = errors.New("synth: all local ports are in use")
)

// Connect begins a connection to addr:port. The handler hears of it with
// Opened, or Reset if it was refused. c is valid from the return on; bytes may be
// given to Send at once.
func (g *Guest) Connect(addr netip.Addr, port uint16) (*Conn, error) {
	remote := word(addr)
	for range 65536 - firstPort {
		if g.ports++; g.ports < firstPort {
			g.ports = firstPort
		}
		key := makeKey(remote, port, g.ports)
		if g.conns.find(key) != nil || g.listens[g.ports] {
			continue
		}
		c := g.conns.add(key)
		if c == nil {
			return nil, ErrConns
		}
		g.begin(c, synSent)
		return c, nil
	}
	return nil, ErrPorts
}

// Listen takes connections that come to a local port. The handler hears of
// each with Opened.
func (g *Guest) Listen(port uint16) { g.listens[port] = true }

// begin sends the first segment. The low 16 bits of the initial sequence
// number are all ones, so that those of the first byte are 0.
func (g *Guest) begin(c *Conn, s state) {
	delete(g.late, c.key)
	c.state = s
	g.serial++
	c.sndUna = g.serial*0x9e37<<16 | 0xffff
	c.sndNxt, c.sndMax = c.sndUna, c.sndUna
	c.mss = 536
	c.set(needSyn | toldAcked)
	g.conns.work(c)
}

// Send gives n more bytes to be sent, in the pattern of the stream; [Endless]
// never ends.
func (g *Guest) Send(c *Conn, n uint64) {
	if n > Endless-c.toSend {
		n = Endless - c.toSend
	}
	c.toSend += n
	c.clear(toldAcked)
	g.conns.work(c)
}

// End sends FIN behind the last byte given to Send. What Send has not passed on
// of an endless stream is dropped.
func (g *Guest) End(c *Conn) {
	if c.toSend > math.MaxUint64/2 {
		c.toSend = 0
	}
	c.set(wantFin)
	g.conns.work(c)
}

// Abort sends RST; there is no event for that. The connection must not be used
// afterwards.
func (g *Guest) Abort(c *Conn) {
	c.set(wantReset)
	g.conns.work(c)
}
