package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Dial connects to one of the servers there are.
type Dial func(ctx context.Context) (net.Conn, error)

// Run keeps n streams going, each to a random one of servers, until ctx is done. Streams that have begun are finished.
func (t *Traffic) Run(ctx context.Context, n int, servers []Dial) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			for ctx.Err() == nil {
				p := newPlan(r)
				i := r.IntN(len(servers))
				if err := t.stream(servers[i], r, p); err != nil {
					t.Report(fmt.Errorf("stream to server %d, %+v: %w", i, p, err))
					time.Sleep(time.Second) // what fails at once would fill the log
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			}
		})
	}
	all.Wait()
}

// stream is the client's side of one stream.
func (t *Traffic) stream(dial Dial, r *rand.Rand, p plan) error {
	ctx, cancel := context.WithTimeout(context.Background(), StallLimit)
	defer cancel()
	start := time.Now()
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	t.waited(time.Since(start))
	e := end{t, conn.(*net.TCPConn)}
	err = e.client(r, p)
	if p.mode == abort && err == nil {
		t.Aborts.Add(1)
		e.close(errAbort)
		return nil
	}
	e.close(err)
	if err == nil {
		t.Streams.Add(1)
	}
	return err
}

var errAbort = errors.New("aborted as planned")

func (e end) client(r *rand.Rand, p plan) error {
	if _, err := e.conn.Write(p.encode()); err != nil {
		return err
	}
	other := rand.New(rand.NewPCG(r.Uint64(), 1))
	send := func() error {
		if err := e.send(other, p.seed, p.up); err != nil || p.mode == abort {
			return err
		}
		return e.conn.CloseWrite()
	}
	receive := func(first time.Duration) error { return e.receive(r, p.seed+1, p.down, first) }
	switch p.mode {
	case answerLater:
		if err := send(); err != nil {
			return err
		}
		return receive(HangLimit)
	case askLater:
		if err := receive(StallLimit); err != nil {
			return err
		}
		return send()
	case abort:
		return send()
	default:
		return both(send, func() error { return receive(StallLimit) })
	}
}
