package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// hostEnd is the host's end of a flow.
type hostEnd struct {
	conn    *net.TCPConn
	flow    int
	written uint32 // sequence number of the next byte to write
	read    uint32 // and to read
}

const hostPatience = 3 * time.Second

func portOf(a net.Addr) uint16 { return uint16(a.(*net.TCPAddr).Port) }

// host does what the host's application does with flow n.
func (x *script) host(n int, words []string) {
	x.Helper()
	p := x.hosts[n]
	switch what := strings.Join(words, " "); {
	case what == "accepts":
		x.hostAccepts(n)
	case what == "connects":
		x.hostConnects(n)
	case what == "stops listening":
		x.listener.Close()
	case p == nil:
		x.fail("host:%d has no connection", n)
	case what == "ends":
		x.try(p.conn.CloseWrite())
	case what == "closes":
		x.try(p.conn.Close())
	case what == "aborts":
		x.try(p.conn.SetLinger(0))
		x.try(p.conn.Close())
	case what == "reads end":
		p.readsEnd(x, io.EOF)
	case what == "reads reset":
		p.readsEnd(x, syscall.ECONNRESET)
	case words[0] == "writes":
		p.writes(x, x.number(words[1]))
	case words[0] == "reads":
		p.reads(x, x.number(words[1]))
	default:
		x.fail("host %v?", words)
	}
	x.settle()
	x.collect()
}

func (x *script) try(err error) {
	x.Helper()
	if err != nil {
		x.fail("%v", err)
	}
}

func (x *script) hostAccepts(n int) {
	x.Helper()
	l := x.listener.(*net.TCPListener)
	x.try(l.SetDeadline(time.Now().Add(hostPatience)))
	conn, err := l.Accept()
	if err != nil {
		x.fail("accept: %v", err)
	}
	x.hosts[n] = &hostEnd{conn: conn.(*net.TCPConn), flow: n, written: 1, read: 1}
}

// hostAcceptsAll accepts what is there and forgets it.
func (x *script) hostAcceptsAll() {
	l := x.listener.(*net.TCPListener)
	x.try(l.SetDeadline(time.Now().Add(20 * time.Millisecond)))
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		x.Cleanup(func() { conn.Close() })
	}
}

func (x *script) hostConnects(n int) {
	x.Helper()
	conn, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(x.loopback()), Port: int(x.forwardPort)})
	if err != nil {
		x.fail("connect: %v", err)
	}
	x.hosts[n] = &hostEnd{conn: conn, flow: n, written: 1, read: 1}
	x.guests[n] = &guestEnd{
		port: forwardedTo, peerPort: portOf(conn.LocalAddr()), inbound: true, isn: guestISN + uint32(n),
	}
}

// writes writes n bytes, with turns in between for as long as that blocks.
func (p *hostEnd) writes(x *script, n int) {
	x.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = pattern(p.flow, 'h', p.written+uint32(i))
	}
	for end := time.Now().Add(hostPatience); len(b) > 0; {
		x.try(p.conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)))
		k, err := p.conn.Write(b)
		b = b[k:]
		p.written += uint32(k)
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end)) {
			x.fail("write: %v, %d bytes are left", err, len(b))
		}
		x.settle()
		x.collect()
	}
}

// reads reads n bytes and compares them.
func (p *hostEnd) reads(x *script, n int) {
	x.Helper()
	b := make([]byte, n)
	for got := 0; got < n; {
		k, err := p.readSome(x, b[got:])
		got += k
		if err != nil {
			x.fail("read: %v, got %d of %d bytes", err, got, n)
		}
	}
	for i, c := range b {
		if want := pattern(p.flow, 'g', p.read+uint32(i)); c != want {
			x.fail("byte %d is %#x, want %#x", p.read+uint32(i), c, want)
		}
	}
	p.read += uint32(n)
}

// readSome reads once, with turns until something comes.
func (p *hostEnd) readSome(x *script, b []byte) (int, error) {
	x.Helper()
	for end := time.Now().Add(hostPatience); ; {
		x.try(p.conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond)))
		n, err := p.conn.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end) {
			return n, err
		}
		x.settle()
		x.collect()
	}
}

func (p *hostEnd) readsEnd(x *script, want error) {
	x.Helper()
	var b [1]byte
	if n, err := p.readSome(x, b[:]); n != 0 || !errors.Is(err, want) {
		x.fail("read %d bytes, error %v, want %v", n, err, want)
	}
}
