// Package capture writes the frames of the guest's link to a pcapng file, for
// tcpdump and wireshark.
//
// Each worker has a [Tap], a bounded ring into which it copies what it sends and
// receives; one goroutine takes the copies out and writes them. Where that
// goroutine or the disk cannot follow, frames are missing from the capture, and
// the capture says how many; nothing changes on the wire.
//
// Frames appear as they pass the ring: with segmentation offload they are longer
// than the MTU. Checksums that are left to the other side are completed, in the
// capture only, where the whole frame was kept.
package capture

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// MaxSnapBytes is the largest useful SnapBytes: the longest frame there can be.
const MaxSnapBytes = 1 << 20

// Config says what to write where.
type Config struct {
	// File is written to until Close, which closes it.
	File io.WriteCloser
	// Interface is the name that the capture gives to the guest's link.
	Interface string
	// SnapBytes is how much of each frame is kept, from its Ethernet header on.
	SnapBytes int
	// LimitBytes ends the capture when the file would become larger; 0: never.
	LimitBytes int64
	// Ended, if not nil, is called once if the capture ends before Close: with
	// ErrLimit, or with what the file said. It runs on the writer's goroutine.
	Ended func(error)
}

// ErrLimit says that the file has reached its limit.
var ErrLimit = errors.New("the capture file has reached its size limit")

// pollEvery is how often the taps are looked at when none is filling up.
const pollEvery = 50 * time.Millisecond

// Capture writes the frames of its taps. Tap and Close are safe from any
// goroutine, Tap not after Close.
type Capture struct {
	cfg  Config
	out  *pcapgo.NgWriter
	file countingWriter
	on   atomic.Bool
	taps atomic.Pointer[[]*Tap]
	wake chan struct{}
	quit chan struct{}
	done chan error // nil until the capture has begun

	start    time.Time
	reported uint64 // drops that were written down
	wrote    uint64 // frames
}

// New returns a capture that has not begun: nothing is written yet, so that what a
// file holds is safe until it is certain that there is something to capture.
func New(cfg Config) *Capture {
	c := &Capture{cfg: cfg, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	c.file.w = cfg.File
	c.taps.Store(new([]*Tap))
	return c
}

// Begin starts the capture, once.
func (c *Capture) Begin() error {
	cfg := &c.cfg
	c.start = time.Now()
	var err error
	c.out, err = pcapgo.NewNgWriterInterface(&c.file, pcapgo.NgInterface{
		Name: cfg.Interface, OS: runtime.GOOS, LinkType: layers.LinkTypeEthernet,
		SnapLength: uint32(cfg.SnapBytes), TimestampResolution: 9,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "vhost-net-go",
	}})
	if err == nil {
		err = c.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("begin capture: %w", err)
	}
	c.done = make(chan error, 1)
	c.on.Store(true)
	go c.run()
	return nil
}

// Tap returns a new tap, for one worker. A nil Capture has nil taps.
func (c *Capture) Tap() *Tap {
	if c == nil {
		return nil
	}
	return c.tap(tapBytes)
}

func (c *Capture) tap(bytes int) *Tap {
	t := newTap(c.cfg.SnapBytes, bytes, &c.on, c.wake)
	for {
		old := c.taps.Load()
		taps := append((*old)[:len(*old):len(*old)], t)
		if c.taps.CompareAndSwap(old, &taps) {
			return t
		}
	}
}

// Missed is how many frames passed after the capture had ended before its time.
func (c *Capture) Missed() (n uint64) {
	if c == nil {
		return 0
	}
	for _, t := range *c.taps.Load() {
		n += t.missed.Load()
	}
	return n
}

// Close writes what is left and closes the file. It returns the first error of
// the file. Begin, if called at all, has returned before.
func (c *Capture) Close() error {
	if c == nil {
		return nil
	}
	if c.done == nil {
		return c.cfg.File.Close()
	}
	close(c.quit)
	return <-c.done
}

// run is the writer's goroutine.
func (c *Capture) run() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var err error
	for quit := false; !quit; {
		select {
		case <-tick.C:
		case <-c.wake:
		case <-c.quit:
			quit = true
			c.on.Store(false)
		}
		if err == nil {
			if err = c.drain(quit); err != nil {
				c.on.Store(false)
				tick.Stop()
				if c.cfg.Ended != nil {
					c.cfg.Ended(err)
				}
			}
		}
	}
	if errors.Is(err, ErrLimit) {
		err = nil
	}
	c.done <- errors.Join(err, c.cfg.File.Close())
}

// drain writes what the taps hold.
func (c *Capture) drain(last bool) error {
	wrote := false
	for _, t := range *c.taps.Load() {
		for {
			r, ok := t.next()
			if !ok {
				break
			}
			err := c.write(&r)
			t.done(r)
			if errors.Is(err, ErrLimit) {
				return errors.Join(err, c.finish())
			}
			if err != nil {
				return err
			}
			wrote = true
		}
	}
	if last {
		return c.finish()
	}
	if !wrote {
		return nil
	}
	return c.flush()
}

func (c *Capture) flush() error {
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}

// write writes a frame, and how many were dropped before it.
func (c *Capture) write(r *record) error {
	if limit := c.cfg.LimitBytes; limit > 0 && c.file.n+int64(len(r.frame))+blockOverhead+reserveBytes > limit {
		return ErrLimit
	}
	if r.vnet.Flags&header.VnetNeedsCsum != 0 && len(r.frame) == r.frameBytes {
		header.Complete(r.frame, int(r.vnet.CsumStart), int(r.vnet.CsumOffset))
	}
	dir := pcapgo.NgEpbFlagDirectionInbound
	if r.dir == ToGuest {
		dir = pcapgo.NgEpbFlagDirectionOutbound
	}
	opts := pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: dir}}
	if _, dropped := c.counts(); dropped != c.reported {
		n := dropped - c.reported
		opts.DropCount, c.reported = &n, dropped
	}
	c.wrote++
	err := c.out.WritePacketWithOptions(gopacket.CaptureInfo{
		Timestamp: time.Unix(0, r.timeNs), CaptureLength: len(r.frame), Length: r.frameBytes,
	}, r.frame, opts)
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}

// The size of a packet block around its data, and what the end of the file and
// the library's buffer may take.
const (
	blockOverhead = 64
	reserveBytes  = 8 << 10
)

// counts sums up what the taps saw, and what they could not keep.
func (c *Capture) counts() (taken, dropped uint64) {
	for _, t := range *c.taps.Load() {
		taken += t.taken.Load()
		dropped += t.dropped.Load()
	}
	return taken, dropped
}

// finish writes the statistics with which a capture ends.
func (c *Capture) finish() error {
	taken, _ := c.counts()
	now := time.Now()
	err := c.out.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{
		LastUpdate: now, StartTime: c.start, EndTime: now,
		PacketsReceived: taken, PacketsDropped: taken - min(c.wrote, taken),
	})
	if err != nil {
		return fmt.Errorf("end capture: %w", err)
	}
	return c.flush()
}

// countingWriter counts what was handed to the file.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
