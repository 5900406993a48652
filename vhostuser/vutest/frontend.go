package vutest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/u-root/u-root/pkg/uio"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// Timeout bounds how long the frontend waits for a reply: an unresponsive
// backend fails a test instead of hanging it.
const Timeout = 10 * time.Second

// Frontend is one connection to a backend.
type Frontend struct {
	// Conn sends and receives messages, or bytes, as they are.
	Conn  *wire.Conn
	Style Style

	// What Connect has found out and agreed on. May be changed in between.
	Offered         uint64 // virtio features
	OfferedProtocol uint64
	Protocol        uint64 // acknowledged
	QueueNum        uint64 // answer to GET_QUEUE_NUM, 0: not asked
	MemSlots        uint64 // answer to GET_MAX_MEM_SLOTS, 0: not asked

	guest     *Guest // started on
	acked     uint64 // with that
	shared    bool   // the backend has guest's memory
	announced bool   // the backend knows guest's rings (QEMU)
}

// New returns a Frontend over a connected socket, which it owns.
func New(uc *net.UnixConn, style Style) *Frontend {
	return &Frontend{Conn: wire.NewConn(uc, Timeout, Timeout), Style: style}
}

// Dial connects to a backend that listens at path.
func Dial(path string, style Style) (*Frontend, error) {
	uc, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("vutest: %w", err)
	}
	return New(uc, style), nil
}

// Accept waits on l for a backend that connects: the role of a frontend with
// QEMU's server=on.
func Accept(l *net.UnixListener, style Style) (*Frontend, error) {
	uc, err := l.AcceptUnix()
	if err != nil {
		return nil, fmt.Errorf("vutest: %w", err)
	}
	return New(uc, style), nil
}

// Pair returns a Frontend and the backend's end of its connection.
func Pair(style Style) (*Frontend, *net.UnixConn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("vutest: socketpair: %w", err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		c, cerr := net.FileConn(f)
		f.Close()
		if cerr != nil {
			err = cerr
			continue
		}
		ends[i] = c.(*net.UnixConn)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("vutest: socketpair: %w", err)
	}
	return New(ends[0], style), ends[1], nil
}

// Close ends the connection.
func (f *Frontend) Close() error { return f.Conn.Close() }

// AckError is the answer of a backend that could not do what it was asked to.
type AckError struct {
	Request wire.Request
	Value   uint64
}

func (e *AckError) Error() string {
	return fmt.Sprintf("%v was answered with %d", e.Request, e.Value)
}

// Do sends a request that has no answer of its own; payload may be nil. When
// REPLY_ACK is negotiated, it asks for the acknowledgement and waits for it: the
// error is an *AckError if the backend has failed.
func (f *Frontend) Do(req wire.Request, payload uio.Marshaler, fds ...int) error {
	if f.Protocol&wire.ProtocolReplyAck == 0 {
		return f.Send(req, 0, payload, fds...)
	}
	return f.DoAck(req, payload, fds...)
}

// DoAck is Do with an acknowledgement in any case.
func (f *Frontend) DoAck(req wire.Request, payload uio.Marshaler, fds ...int) error {
	if err := f.Send(req, wire.FlagNeedReply, payload, fds...); err != nil {
		return err
	}
	var v wire.U64
	if err := f.receive(req, &v); err != nil {
		return err
	}
	if v != 0 {
		return &AckError{Request: req, Value: uint64(v)}
	}
	return nil
}

// Get sends a request and decodes its answer into reply.
func (f *Frontend) Get(req wire.Request, payload uio.Marshaler, reply uio.Unmarshaler) error {
	if err := f.Send(req, 0, payload); err != nil {
		return err
	}
	return f.receive(req, reply)
}

// GetU64 is Get for a request without payload that is answered with one word.
func (f *Frontend) GetU64(req wire.Request) (uint64, error) {
	var v wire.U64
	err := f.Get(req, nil, &v)
	return uint64(v), err
}

// Send sends a request with additional flags and waits for nothing.
func (f *Frontend) Send(req wire.Request, flags uint32, payload uio.Marshaler, fds ...int) error {
	m := &wire.Message{Request: req, Flags: wire.FlagVersion | flags, FDs: fds}
	if payload != nil {
		m.Payload = wire.Encode(payload)
	}
	return f.Conn.Send(m)
}

// receive takes the reply to req. As QEMU and DPDK do, it insists on the flags.
func (f *Frontend) receive(req wire.Request, reply uio.Unmarshaler) error {
	m, err := f.Conn.Receive()
	if err != nil {
		return fmt.Errorf("reply to %v: %w", req, err)
	}
	defer m.Close()
	if m.Request != req || m.Flags != wire.FlagVersion|wire.FlagReply {
		return fmt.Errorf("reply to %v: got %v with flags %#x", req, m.Request, m.Flags)
	}
	if len(m.FDs) != 0 {
		return errors.New("reply with file descriptors")
	}
	if err := wire.Decode(m.Payload, reply); err != nil {
		return fmt.Errorf("reply to %v: %w", req, err)
	}
	return nil
}
