package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/u-root/u-root/pkg/uio"
	"golang.org/x/sys/unix"
)

// Conn carries messages over a connected Unix stream socket. One goroutine may
// receive while another sends; Close may be called at any time and ends both.
type Conn struct {
	uc *net.UnixConn

	// Idle bounds the wait for the first byte of a message; 0 is for ever.
	Idle time.Duration
	// Stall bounds the time that the rest of a message takes to arrive once
	// it has begun, and the time that sending one takes; 0 is for ever.
	Stall time.Duration

	oob []byte
}

// NewConn returns a Conn over uc, which it owns from now on.
func NewConn(uc *net.UnixConn, idle, stall time.Duration) *Conn {
	return &Conn{uc: uc, Idle: idle, Stall: stall, oob: make([]byte, unix.CmsgSpace(4*MaxFDs))}
}

// Close closes the socket.
func (c *Conn) Close() error { return c.uc.Close() }

// Receive returns the next message. The caller must Close it. The error is
// io.EOF only when the peer closed the socket between two messages; after any
// error the stream's position is unknown and the connection is of no more use.
func (c *Conn) Receive() (*Message, error) {
	m := new(Message)
	h, err := c.receiveHeader(m)
	if err == nil {
		m.Request, m.Flags = h.Request, h.Flags
		m.Payload = make([]byte, h.Size)
		err = c.receivePayload(m.Payload)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// receiveHeader reads one header. The kernel delivers descriptors with the
// first byte of the write that carried them, so they are collected here only;
// those sent beside a later byte are closed by the kernel.
func (c *Conn) receiveHeader(m *Message) (Header, error) {
	var (
		buf [HeaderSize]byte
		h   Header
	)
	if err := c.uc.SetReadDeadline(deadline(c.Idle)); err != nil {
		return h, fmt.Errorf("receive header: %w", err)
	}
	for n := 0; n < len(buf); {
		k, oobn, flags, _, err := c.uc.ReadMsgUnix(buf[n:], c.oob)
		if oobn > 0 {
			if ferr := m.collect(c.oob[:oobn]); ferr != nil {
				return h, ferr
			}
		}
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return h, io.EOF
		case errors.Is(err, io.EOF):
			return h, fmt.Errorf("receive header: %w after %d bytes", io.ErrUnexpectedEOF, n)
		case err != nil:
			return h, fmt.Errorf("receive header: %w", err)
		case flags&unix.MSG_CTRUNC != 0:
			return h, fmt.Errorf("receive header: more than %d file descriptors beside one message", MaxFDs)
		}
		if n == 0 {
			if err := c.uc.SetReadDeadline(deadline(c.Stall)); err != nil {
				return h, fmt.Errorf("receive header: %w", err)
			}
		}
		n += k
	}
	if err := Decode(buf[:], &h); err != nil {
		return h, fmt.Errorf("receive header: %w", err)
	}
	return h, h.check()
}

func (c *Conn) receivePayload(b []byte) error {
	if _, err := io.ReadFull(c.uc, b); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("receive payload of %d bytes: %w", len(b), err)
	}
	return nil
}

// collect takes over the descriptors in a control message.
func (m *Message) collect(oob []byte) error {
	cmsgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("parse control message: %w", err)
	}
	for i := range cmsgs {
		if cmsgs[i].Header.Level != unix.SOL_SOCKET || cmsgs[i].Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&cmsgs[i])
		if err != nil {
			return fmt.Errorf("parse file descriptors: %w", err)
		}
		m.FDs = append(m.FDs, fds...)
	}
	return nil
}

// Send sends m in one write, because some frontends read header and payload
// with one receive call each. The descriptors stay the caller's.
func (c *Conn) Send(m *Message) error {
	l := uio.NewNativeEndianBuffer(make([]byte, 0, HeaderSize+len(m.Payload)))
	h := Header{Request: m.Request, Flags: m.Flags, Size: uint32(len(m.Payload))}
	h.Marshal(l)
	l.WriteBytes(m.Payload)
	if err := c.SendRaw(l.Data(), m.FDs); err != nil {
		return fmt.Errorf("send %v: %w", m.Request, err)
	}
	return nil
}

// SendRaw sends bytes and descriptors as they are. It is there for tests that
// need malformed messages.
func (c *Conn) SendRaw(b []byte, fds []int) error {
	if err := c.uc.SetWriteDeadline(deadline(c.Stall)); err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	n, _, err := c.uc.WriteMsgUnix(b, oob, nil)
	if err != nil {
		return err
	}
	if n < len(b) { // a stream socket may take a part; the rest carries no descriptors
		_, err = c.uc.Write(b[n:])
	}
	return err
}

func deadline(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
