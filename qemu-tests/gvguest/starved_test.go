package gvguest_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// TestWithheldBuffers: a guest that gives no receive buffers for seconds loses
// nothing, and costs nothing meanwhile.
func TestWithheldBuffers(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			pause := 700 * time.Millisecond
			if s.name == linuxSetup.name && !testing.Short() {
				pause = 4 * time.Second
			}
			b := newBench(t, s).boot()
			var all sync.WaitGroup
			for _, r := range routes() {
				c := b.connector(r)
				defer c.close()
				all.Go(func() { b.transfer(c, 2, scaled(8<<20), scaled(8<<20)) })
			}
			time.Sleep(30 * time.Millisecond)
			for range 2 {
				b.guest.NIC.Withhold(true)
				time.Sleep(200 * time.Millisecond)
				left := 0
				b.worker.Park(func() { left = b.rx.Pending() }) // posted, and not used yet
				before := b.worker.Snapshot()
				time.Sleep(pause)
				after := b.worker.Snapshot()
				if n := after.Queue.Frames - before.Queue.Frames; n > uint64(left) {
					t.Errorf("%d frames while there were %d buffers", n, left)
				}
				// It starves once, when it finds the last ones too few.
				if n := after.Queue.Starved - before.Queue.Starved; n > 1 {
					t.Errorf("tried %d times in vain while there were no buffers", n)
				}
				b.guest.NIC.Withhold(false)
				time.Sleep(50 * time.Millisecond)
			}
			all.Wait()
		})
	}
}

// TestZeroWindow: a reader that stops for seconds, on either side, closes the
// window and stops the sender; afterwards all bytes are there.
func TestZeroWindow(t *testing.T) {
	pause := 4 * time.Second
	if testing.Short() {
		pause = 1500 * time.Millisecond
	}
	const n = 16 << 20
	for _, imp := range []gvguest.Impairment{{}, {Loss: 0.02, Reorder: 0.01, Duplicate: 0.01}} {
		b := newBench(t, linuxSetup)
		b.nic.ToGuest, b.nic.FromGuest = imp, imp
		b.system = func(c *gvguest.Config) { c.RcvBufBytes, c.SndBufBytes = 128<<10, 128<<10 }
		b.boot()
		var all sync.WaitGroup
		for _, r := range routes() {
			c := b.connector(r)
			c.timeout = 2 * time.Minute
			defer c.close()
			for _, fromGuest := range []bool{true, false} {
				all.Go(func() {
					gc, hc, err := c.pair()
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = hc.SetReadBuffer(64<<10), hc.SetWriteBuffer(64<<10)
					var from, to end = guestEnd{gc}, hostEnd{hc}
					size := n // more than all buffers on the way hold
					if !fromGuest {
						from, to = to, from
					}
					if imp != (gvguest.Impairment{}) {
						size /= 2
					}
					if err := stopAndGo(from, to, size, pause); err != nil {
						t.Errorf("%v, from guest %v: %v", c.r, fromGuest, err)
						b.dump()
						_ = from.abort()
					}
					from.Close()
					to.Close()
				})
			}
		}
		all.Wait()
	}
}

// stopAndGo sends n bytes to a reader that begins late and pauses in between.
func stopAndGo(from, to end, n int, pause time.Duration) error {
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(send(from, 1, n), from.CloseWrite()) }()
	time.Sleep(pause)
	if len(sent) > 0 && n >= 2<<20 {
		return fmt.Errorf("%d bytes went to somebody who does not read: %v", n, <-sent)
	}
	src := stream(1)
	if err := expectFrom(&pausing{to, n / 3, pause}, src, n); err != nil {
		return err
	}
	return <-sent
}

// pausing is a reader that pauses once, after some bytes.
type pausing struct {
	end
	after int
	pause time.Duration
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.pause > 0 && p.after <= 0 {
		time.Sleep(p.pause)
		p.pause = 0
	}
	n, err := p.end.Read(b)
	p.after -= n
	return n, err
}
