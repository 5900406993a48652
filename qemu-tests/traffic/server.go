package traffic

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// Serve serves streams until l is closed.
func (t *Traffic) Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.Report(fmt.Errorf("accept: %w", err))
			time.Sleep(time.Second)
			continue
		}
		go func() {
			e := end{t, conn.(*net.TCPConn)}
			p, err := e.server()
			e.close(err)
			switch {
			case err != nil:
				t.Report(fmt.Errorf("stream from %v, %+v: %w", conn.RemoteAddr(), p, err))
			case p.mode == abort:
				t.Aborts.Add(1)
			default:
				t.Streams.Add(1)
			}
		}()
	}
}

// server is the server's side of one stream.
func (e end) server() (p plan, err error) {
	head := make([]byte, planBytes)
	for n := 0; n < len(head); {
		m, err := e.read(head[n:], StallLimit)
		if n += m; err != nil {
			return p, fmt.Errorf("the beginning, after %d bytes: %w", n, err)
		}
	}
	if p, err = decodePlan(head); err != nil {
		return p, err
	}
	r, other := rand.New(rand.NewPCG(p.seed, 2)), rand.New(rand.NewPCG(p.seed, 3))
	send := func() error {
		if err := e.send(other, p.seed+1, p.down); err != nil {
			return err
		}
		return e.conn.CloseWrite()
	}
	receive := func(first time.Duration) error { return e.receive(r, p.seed, p.up, first) }
	switch p.mode {
	case answerLater:
		if err := receive(StallLimit); err != nil {
			return p, err
		}
		return p, send()
	case askLater:
		if err := send(); err != nil {
			return p, err
		}
		return p, receive(HangLimit)
	case abort:
		return p, expectReset(receive(StallLimit))
	default:
		return p, both(send, func() error { return receive(StallLimit) })
	}
}

// expectReset turns round what came of receiving: only a reset is right.
func expectReset(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		return nil
	case err == nil:
		return fmt.Errorf("an ordinary end of a stream that was reset: %w", io.EOF)
	}
	return fmt.Errorf("not reset: %w", err)
}
