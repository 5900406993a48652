// Package longpath joins two network namespaces by a long, lossy path: what netem does in kernels that have it, as a
// program. Each end is a tap device; frames between them get the time on the wire that their length takes at the path's
// rate, wait in a queue of bounded length before that, and arrive after a delay, in order, if they are not lost.
package longpath

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// End is where the path ends: the name of a device to be made in a namespace. It is down at first.
type End struct {
	NS     *sandbox.NetNS
	Device string
}

// Config says how long the path is, the same in both directions. A Config is not changed once it is in use.
type Config struct {
	// Delay is how long a frame travels, one way.
	Delay time.Duration
	// Loss is the share of frames that never arrive, 0…1.
	Loss float64
	// BitsPerSecond is the rate, of frames with their Ethernet header; 0 means no limit.
	BitsPerSecond int64
	// Queue is the most time that a frame may wait for those before it; more are dropped.
	Queue time.Duration
}

// Counters count the frames of one direction.
type Counters struct {
	Passed, Lost, Dropped int64 // Dropped: the queue was full
}

// Path is a running path. Its methods may be called from several goroutines.
type Path struct {
	config atomic.Pointer[Config]
	ends   [2]*os.File
	lines  [2]*line
	all    sync.WaitGroup
}

// New makes both devices and begins to pass frames.
func New(a, b End, c Config) (*Path, error) {
	p := new(Path)
	p.config.Store(&c)
	for i, e := range []End{a, b} {
		f, err := openTap(e)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make the end %s of a path: %w", e.Device, err), p.Close())
		}
		p.ends[i] = f
	}
	for i := range p.lines {
		l := newLine(uint64(i))
		p.lines[i] = l
		p.all.Go(func() { l.read(p.ends[i], &p.config) })
		p.all.Go(func() { l.write(p.ends[1-i]) })
	}
	return p, nil
}

// Set changes the path, for the frames that enter it from now on.
func (p *Path) Set(c Config) { p.config.Store(&c) }

// Counters returns what became of the frames from the first end to the second, and of those back.
func (p *Path) Counters() (there, back Counters) {
	return p.lines[0].counters(), p.lines[1].counters()
}

// Close removes the devices.
func (p *Path) Close() error {
	var errs []error
	for _, f := range p.ends {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	p.all.Wait()
	return errors.Join(errs...)
}
