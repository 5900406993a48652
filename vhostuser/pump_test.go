package vhostuser_test

import (
	"fmt"
	"time"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// pump moves frames through an echo device in batches, and counts what came
// back of what went out. A device may keep frames while its rings are stopped.
type pump struct {
	g    *vutest.Guest
	addr uint64 // one buffer for all: content is not checked
	out  int    // frames sent
	in   int    // frames that came back
	rx   int    // receive buffers that are with the device
}

const pumpBatch = 16

func newPump(g *vutest.Guest) (*pump, error) {
	addr, err := g.Memory.Alloc(64, 64)
	return &pump{g: g, addr: addr}, err
}

// fill gives the device up to a batch of receive buffers.
func (p *pump) fill() error {
	for p.rx < pumpBatch {
		if _, err := p.g.Queues[0].Add(nil, []virtqtest.Buffer{{Addr: p.addr, Len: 64}}); err != nil {
			return err
		}
		p.rx++
	}
	return p.g.Queues[0].Kick()
}

// send sends a batch.
func (p *pump) send(n int) error {
	for range n {
		if _, err := p.g.Queues[1].Add([]virtqtest.Buffer{{Addr: p.addr, Len: 64}}, nil); err != nil {
			return err
		}
		p.out++
	}
	return p.g.Queues[1].Kick()
}

// reap takes back what the device has returned.
func (p *pump) reap() error {
	for _, q := range p.g.Queues {
		for {
			_, ok, err := q.Reap()
			if err != nil {
				return fmt.Errorf("queue %d: %w", q.Index, err)
			}
			if !ok {
				break
			}
			if q.Index == 0 {
				p.in++
				p.rx--
			}
		}
	}
	return nil
}

// run sends n frames and waits for each of them to come back.
func (p *pump) run(n int) error {
	for n > 0 {
		k := min(n, pumpBatch)
		n -= k
		if err := p.fill(); err != nil {
			return err
		}
		if err := p.send(k); err != nil {
			return err
		}
		if err := p.drain(); err != nil {
			return err
		}
	}
	return nil
}

// drain waits until all frames are back and all transmit buffers are free.
func (p *pump) drain() error {
	end := time.Now().Add(patience)
	tx := p.g.Queues[1]
	for {
		if err := p.reap(); err != nil {
			return err
		}
		if p.in == p.out && tx.Free() == int(tx.Size()) {
			return nil
		}
		if p.in < p.out {
			if err := p.fill(); err != nil {
				return err
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d frames came back", p.in, p.out)
		}
		if !p.g.Queues[0].EnableCalls() {
			p.g.Queues[0].WaitCall(time.Millisecond)
		}
	}
}
