package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

const (
	chunkBytes = 64 << 10
	// maxPauses bounds the short pauses of a direction, each of at most maxPause. A reader may make one longPause, with which
	// windows close.
	maxPauses = 4
	maxPause  = 300 * time.Millisecond
	longPause = 4 * time.Second
)

// end is one side of a stream.
type end struct {
	t    *Traffic
	conn *net.TCPConn
}

// pauses is how often a direction may still rest.
type pauses int

func (p *pauses) maybe(r *rand.Rand) {
	if *p > 0 && r.IntN(20) == 0 {
		*p--
		time.Sleep(time.Duration(r.Int64N(int64(maxPause))))
	}
}

// send sends n bytes of a pattern in random pieces.
func (e end) send(r *rand.Rand, seed uint64, n int64) error {
	buf, from, rest := make([]byte, chunkBytes), pattern.Reader(seed, n), pauses(maxPauses)
	for left := n; left > 0; {
		m, err := from.Read(buf[:1+r.IntN(chunkBytes)])
		if err != nil {
			return err
		}
		_ = e.conn.SetWriteDeadline(time.Now().Add(HangLimit))
		if _, err := e.conn.Write(buf[:m]); err != nil {
			return fmt.Errorf("send, %d of %d bytes left: %w", left, n, err)
		}
		left -= int64(m)
		rest.maybe(r)
	}
	return nil
}

// receive reads a pattern up to its end, which must be behind n bytes. The first byte may take as long as first says.
func (e end) receive(r *rand.Rand, seed uint64, n int64, first time.Duration) error {
	buf, want := make([]byte, chunkBytes), make([]byte, chunkBytes)
	from, rest, limit := pattern.Reader(seed, n), pauses(maxPauses), first
	rested := r.IntN(30) == 0
	if rested {
		time.Sleep(longPause)
	}
	for got := int64(0); ; limit = StallLimit {
		start := time.Now()
		m, err := e.read(buf[:1+r.IntN(chunkBytes)], limit)
		if d := time.Since(start); d > slowWait && limit <= StallLimit && e.t.Slow != nil {
			e.t.Slow(fmt.Sprintf("%v for byte %d of %d, from %v to %v, rested before: %v",
				d, got, n, e.conn.RemoteAddr(), e.conn.LocalAddr(), rested))
		}
		if m > 0 {
			if k, _ := io.ReadFull(from, want[:m]); k < m {
				return fmt.Errorf("received more than %d bytes", n)
			}
			if !bytes.Equal(buf[:m], want[:m]) {
				return fmt.Errorf("wrong bytes between %d and %d of %d", got, got+int64(m), n)
			}
			got += int64(m)
			e.t.Bytes.Add(int64(m))
		}
		switch {
		case errors.Is(err, io.EOF) && got == n:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the end, after %d of %d bytes", got, n)
		case err != nil:
			return fmt.Errorf("receive, after %d of %d bytes: %w", got, n, err)
		}
		rest.maybe(r)
	}
}

// read is one read that may take as long as limit says.
func (e end) read(b []byte, limit time.Duration) (int, error) {
	start := time.Now()
	_ = e.conn.SetReadDeadline(start.Add(limit))
	n, err := e.conn.Read(b)
	if limit <= StallLimit {
		e.t.waited(time.Since(start))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: nothing for %v", errStall, limit)
	}
	return n, err
}

// close ends the stream: with a reset if something went wrong, so that the other side notices.
func (e end) close(err error) {
	if err != nil {
		_ = e.conn.SetLinger(0)
	}
	e.conn.Close()
}

// both runs the two directions at once.
func both(send, receive func() error) error {
	sent := make(chan error, 1)
	go func() { sent <- send() }()
	err := receive()
	return errors.Join(err, <-sent)
}
