package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// guest is the guest's side of a storm. All but hostDone belongs to the goroutine that runs it.
type guest struct {
	c                            Config
	g                            *synth.Guest
	begun, opened, ended, resets int
	sources                      []uint16 // free ports, the one that rests longest first
	hostDone                     atomic.Int64
}

func (g *guest) fill(r *Result) {
	r.Opened, r.Ended, r.Resets = g.opened, g.ended, g.resets
	r.Unknown, r.Resent, r.Late = int(g.g.Counters.Unknown), int(g.g.Counters.Resent), int(g.g.Counters.Late)
}

// wayOf is how a connection is to be closed. As a client, it is in its tag.
func (g *guest) wayOf(c *synth.Conn) way {
	if g.c.Inbound {
		return way(c.LocalPort() - firstPort)
	}
	return way(c.Tag)
}

// Event does the guest's part of a cycle.
func (g *guest) Event(c *synth.Conn, what synth.Event) {
	w := g.wayOf(c)
	if what&synth.Opened != 0 {
		g.opened++
		if !g.c.Inbound {
			g.g.Send(c, 1)
		}
	}
	if what&synth.Received != 0 {
		if g.c.Inbound {
			g.g.Send(c, 1)
		}
		if w != byHost {
			g.g.End(c)
		}
	}
	if what&synth.PeerEnded != 0 && w == byHost {
		g.g.End(c)
	}
	if what&(synth.Closed|synth.Reset) != 0 {
		g.ended++
		if what&synth.Reset != 0 {
			g.resets++
		}
		g.sources = append(g.sources, c.LocalPort())
	}
}

// storm runs the guest until everything is over or nothing goes on.
func (g *guest) storm(ctx context.Context, s *stage.Stage) error {
	for i := range Sources {
		g.sources = append(g.sources, firstSource+uint16(i))
	}
	begin, stop, err := g.startHost(s)
	if err != nil {
		return err
	}
	last, at := 0, time.Now()
	done := func() bool {
		begin()
		if g.ended != last {
			last, at = g.ended, time.Now()
		}
		return ctx.Err() != nil || g.resets > 0 || time.Since(at) > stall ||
			g.ended == g.c.Cycles && int(g.hostDone.Load()) == g.c.Cycles
	}
	err = errors.Join(g.g.Run(time.Hour, done), ctx.Err())
	switch {
	case err == nil && g.resets > 0:
		err = errors.New("a connection was reset")
	case err == nil && g.ended < g.c.Cycles:
		err = fmt.Errorf("no connection ended for %v", stall)
	}
	return errors.Join(err, stop())
}

// startHost starts the host's side. begin begins connections of the guest, if it is the client.
func (g *guest) startHost(s *stage.Stage) (begin func(), stop func() error, err error) {
	if g.c.Inbound {
		for w := range ways {
			g.g.Listen(w.port())
		}
		clients := startClients(s.Peer, g.c, &g.hostDone)
		return func() {}, clients.stop, nil
	}
	servers, err := startServers(s.Peer, &g.hostDone)
	if err != nil {
		return nil, nil, err
	}
	return g.begin, servers.stop, nil
}

// begin connects as often as may be.
func (g *guest) begin() {
	for g.begun < g.c.Cycles && g.begun-g.ended < g.c.Parallel && len(g.sources) > 0 {
		w := way(rand.IntN(int(ways)))
		c, err := g.g.ConnectFrom(g.sources[0], stage.PeerAddr, w.port())
		if err != nil {
			return // the last acknowledgement of the connection before is not out yet
		}
		c.Tag = uint32(w)
		g.sources = g.sources[1:]
		g.begun++
	}
}
