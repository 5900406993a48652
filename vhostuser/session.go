package vhostuser

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// session is one connection: what the frontend has negotiated and shared. All
// of it belongs to the goroutine that calls run.
type session struct {
	srv  *Server
	conn *wire.Conn
	log  *limitedLog

	order      startOrder
	features   uint64 // virtio, acknowledged
	negotiated bool   // SET_FEATURES came
	proto      uint64 // protocol features, acknowledged
	status     uint8  // virtio device status as the driver set it
	backendReq int    // socket for requests to the frontend, -1: none
	mem        memory
	dirty      dirtyLog
	rings      []ring
	up         bool     // a ring has run, and the log says so
	later      []func() // see afterPark
}

func newSession(srv *Server, conn *wire.Conn) *session {
	s := &session{srv: srv, conn: conn, log: srv.log, backendReq: -1}
	s.rings = make([]ring, srv.dev.NumQueues())
	for i := range s.rings {
		s.rings[i] = newRing(i)
	}
	return s
}

// received is what the reading goroutine passes on: a message, or why there are
// no more.
type received struct {
	m   *wire.Message
	err error
}

// run handles requests until the connection ends, which is no error if the
// frontend closed it between two messages. It returns how many were handled.
// close must follow.
func (s *session) run(ctx context.Context) (handled int, err error) {
	in := make(chan received)
	stop := make(chan struct{})
	done := make(chan struct{})
	go s.read(in, stop, done)
	// At a shutdown, a reply that the frontend does not take must not hold
	// us up either.
	hangUp := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer func() {
		hangUp()
		close(stop)
		s.conn.Close() // ends a read that is under way
		<-done
	}()
	for {
		select {
		case <-ctx.Done():
			return handled, ctx.Err()
		case <-s.srv.wake:
			s.stopBroken()
		case r := <-in:
			switch {
			case errors.Is(r.err, io.EOF):
				return handled, nil
			case r.err != nil:
				return handled, r.err
			}
			if err := s.handle(r.m); err != nil {
				return handled, err
			}
			handled++
		}
	}
}

// read passes messages on until there are no more or stop is closed.
func (s *session) read(in chan<- received, stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	for {
		m, err := s.conn.Receive()
		select {
		case in <- received{m, err}:
		case <-stop:
			if m != nil {
				m.Close()
			}
			return
		}
		if err != nil {
			return
		}
	}
}

// handle acts on one message and answers it. An error ends the connection.
func (s *session) handle(m *wire.Message) error {
	defer m.Close()
	r := lookup(m.Request)
	payload, err := s.dispatch(r, m)
	if s.log.IsTrace() {
		s.log.Trace("request", "name", m.Request, "flags", m.Flags, "size", len(m.Payload), "payload", fmt.Sprintf("%x", head(m.Payload)), "error", err)
	}
	if err != nil {
		err = fmt.Errorf("%v: %w", m.Request, err)
	}
	switch data := r.reply == replyData; {
	case err == nil && r.reply != replyAck:
		return s.reply(m.Request, payload)
	case err != nil && (data || !m.NeedReply()):
		if errors.Is(err, errRefused) {
			s.log.debug("request ignored", "error", err)
			return nil
		}
		return err
	case m.NeedReply():
		ack := wire.U64(0)
		if err != nil {
			ack = 1
			s.log.warn("request failed", "error", err)
		}
		return s.reply(m.Request, wire.Encode(&ack))
	}
	return nil
}

// dispatch checks m against r, its row in the table, and acts on it.
func (s *session) dispatch(r *request, m *wire.Message) ([]byte, error) {
	if err := r.check(m, s.proto); err != nil {
		return nil, err
	}
	payload, err := r.act(s, m)
	if err != nil {
		return nil, err
	}
	s.settle()
	return payload, nil
}

func (s *session) reply(req wire.Request, payload []byte) error {
	return s.conn.Send(&wire.Message{Request: req, Flags: wire.FlagVersion | wire.FlagReply, Payload: payload})
}

// close takes everything back that the frontend shared.
func (s *session) close() {
	s.park(func() {
		for i := range s.rings {
			s.stop(&s.rings[i])
		}
		s.srv.dev.Reset()
		s.mem.unmapAll()
		s.dirty.unmap()
	})
	for i := range s.rings {
		s.rings[i].closeFDs()
	}
	closeFD(&s.backendReq)
}

// closeFD closes *fd, if there is one, and forgets it.
func closeFD(fd *int) {
	if *fd >= 0 {
		unix.Close(*fd)
		*fd = -1
	}
}

func head(b []byte) []byte { return b[:min(len(b), 64)] }
