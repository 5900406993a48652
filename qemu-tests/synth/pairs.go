package synth

import (
	"errors"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
)

// NewPairs is New for a guest with a queue pair for each configuration. Each pair
// is a Guest of its own with its own connections, to be driven by a goroutine of
// its own; addresses, features and sizes are those of the first one, and the local
// ports are shared out, so that a flow stays on its pair. Close of the first one
// ends all; the others must not be in use any more.
func NewPairs(fe *vutest.Frontend, cfgs ...Config) ([]*Guest, error) {
	first := &Guest{cfg: cfgs[0], fe: fe, listens: map[uint16]bool{}, ports: firstPort - 1}
	pairs := []*Guest{first}
	err := first.start(len(cfgs))
	for i := 1; i < len(cfgs) && err == nil; i++ {
		var g *Guest
		if g, err = first.another(i, cfgs[i]); err == nil {
			pairs = append(pairs, g)
		}
	}
	for i, g := range pairs {
		g.ports = uint16(firstPort - 1 + i*(65536-firstPort)/len(cfgs))
		if err == nil {
			err = g.findGateway()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("synth: %w", errors.Join(err, first.Close()))
	}
	return pairs, nil
}

// another makes the guest of pair i.
func (g *Guest) another(i int, cfg Config) (*Guest, error) {
	cfg.MTU, cfg.Addr, cfg.Gateway, cfg.MAC = g.cfg.MTU, g.cfg.Addr, g.cfg.Gateway, g.cfg.MAC
	cfg.Features, cfg.RingSize, cfg.RxBufBytes, cfg.WindowBytes = g.cfg.Features, g.cfg.RingSize, g.cfg.RxBufBytes, g.cfg.WindowBytes
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	p := &Guest{
		cfg: cfg, fe: g.fe, mem: g.mem, vm: g.vm, Features: g.Features, payload: g.payload,
		wscale: g.wscale, window: g.window, pair: i, shared: true, listens: map[uint16]bool{},
	}
	if err := p.initRings(); err != nil {
		return nil, err
	}
	return p, p.fill()
}
