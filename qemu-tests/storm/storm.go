// Package storm connects and closes over and over from few ports: connect, a byte, a byte back, close, with either side or
// both closing first. The guest is a synthetic one. Nothing may be reset, nothing may hang, and nothing may be left.
package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

const (
	// firstSource and Sources are the range of ports that connections come from.
	firstSource = 20_000
	// Sources is how many there are.
	Sources = 200
	// firstPort is the first server's; each way to close has a server of its own.
	firstPort = 7000
	// stall is how long a connection may take.
	stall = 10 * time.Second
	// settle is how long descriptors may take to be closed at the end.
	settle = 10 * time.Second
)

// way is who closes first.
type way int

const (
	byGuest way = iota
	byHost
	byBoth
	ways
)

func (w way) port() uint16 { return firstPort + uint16(w) }

// Config describes a storm.
type Config struct {
	Cycles   int  // connections
	Parallel int  // of them at a time, 1…Sources
	Inbound  bool // the host connects to the guest
}

func (c Config) String() string {
	if c.Inbound {
		return "host to guest"
	}
	return "guest to host"
}

// Result is what a storm came to. Everything but Took, Resent, Late and the descriptors should be Cycles or 0.
type Result struct {
	Config        Config
	Opened, Ended int // as the guest sees it
	Resets        int // connections of the guest, or of the host, that were reset
	Unknown       int // segments of no connection that the guest got
	Resent        int // times that the guest sent again
	Late          int // acknowledgements of that when the connection was over; the guest has no TIME-WAIT
	HostResets    int // RST segments that the kernels of both hosts sent
	FilesBefore   int // descriptors of the backend
	FilesAfter    int
	Took          time.Duration
}

func (r Result) String() string {
	return fmt.Sprintf("%s: %d connections from %d ports, %.0f per s; %d opened, %d ended, %d reset (kernels: %d), %d unknown segments, "+
		"%d resent, %d of it acknowledged late; descriptors %d before, %d after", r.Config, r.Config.Cycles, Sources,
		float64(r.Config.Cycles)/r.Took.Seconds(), r.Opened, r.Ended, r.Resets, r.HostResets, r.Unknown, r.Resent, r.Late, r.FilesBefore, r.FilesAfter)
}

// Run makes a storm on a backend of its own.
func Run(ctx context.Context, s *stage.Stage, p stage.Program, c Config) (r Result, err error) {
	r.Config = c
	if err := prepare(s, c); err != nil {
		return r, err
	}
	var forwards []string
	for w := range ways {
		forwards = append(forwards, fmt.Sprint(w.port()))
	}
	b, err := s.Start(ctx, p, 1500, "-t", strings.Join(forwards, ","))
	if err != nil {
		return r, err
	}
	defer b.Stop()
	g := &guest{c: c}
	if g.g, err = b.Guest(synth.Config{Conns: 4 * Sources, Handler: g}); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, g.g.Close()) }()
	before, err := b.Usage()
	if err != nil {
		return r, err
	}
	resets, err := kernelResets(s)
	if err != nil {
		return r, err
	}
	start := time.Now()
	err = g.storm(ctx, s)
	r.Took = time.Since(start)
	g.fill(&r)
	if err != nil {
		return r, fmt.Errorf("%w (%v; guest %+v; backend: %s)", err, r, g.g.Counters, b.Log())
	}
	return r, errors.Join(r.afterwards(s, b, before.Files, resets), r.check())
}

// afterwards waits for what may take a moment, and reads what the storm has left.
func (r *Result) afterwards(s *stage.Stage, b *stage.Backend, files, resets int) error {
	r.FilesBefore = files
	for end := time.Now().Add(settle); ; time.Sleep(50 * time.Millisecond) {
		u, err := b.Usage()
		if err != nil {
			return err
		}
		if r.FilesAfter = u.Files; u.Files <= files || time.Now().After(end) {
			break
		}
	}
	now, err := kernelResets(s)
	r.HostResets = now - resets
	return err
}

func (r *Result) check() error {
	switch {
	case r.Opened != r.Config.Cycles || r.Ended != r.Config.Cycles:
		return fmt.Errorf("not all connections were opened and ended: %v", *r)
	case r.Resets != 0 || r.HostResets != 0 || r.Unknown != 0 || r.Late > r.Resent:
		return fmt.Errorf("connections were reset: %v", *r)
	case r.FilesAfter > r.FilesBefore:
		return fmt.Errorf("the backend keeps descriptors: %v", *r)
	}
	return nil
}
