package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

const (
	firstPeerPort = 6000
	warmUp        = 300 * time.Millisecond
	coolDown      = 100 * time.Millisecond
	// localUDPPort is the guest's in datagram rows.
	localUDPPort = 4000
	wideDatagram = 1472
)

// row is a measurement. It yields two lines of the table: the rate, and the
// amount per second of the backend's CPU time.
type row struct {
	name, unit, perCPU string
	scale              float64 // from the amount to the unit
	load               func(*driver) load
	// send and recv say which directions a plain program can do as well.
	send, recv bool
}

// load is what a row does to the backend.
type load struct {
	begin  func() error
	turn   func() // called over and over
	amount func() float64
	end    func()
}

var rows = []row{
	{"tcp guest to host", "Gbit/s", "Gbit/CPU-s", 8e-9, func(d *driver) load { return d.streams(stage.SinkPort) }, true, false},
	{"tcp host to guest", "Gbit/s", "Gbit/CPU-s", 8e-9, func(d *driver) load { return d.streams(stage.SourcePort) }, false, true},
	{"tcp both directions", "Gbit/s", "Gbit/CPU-s", 8e-9, func(d *driver) load { return d.streams(stage.SinkPort, stage.SourcePort) }, true, true},
	{"tcp request/response", "1/s", "1/CPU-s", 1, func(d *driver) load { return d.requests(1) }, false, false},
	{"tcp request/response, 32 at a time", "1/s", "1/CPU-s", 1, func(d *driver) load { return d.requests(32) }, false, false},
	{"tcp connect/request/response/close", "1/s", "1/CPU-s", 1, func(d *driver) load { return d.cycles(1) }, false, false},
	{"tcp connect/request/response/close, 32 at a time", "1/s", "1/CPU-s", 1, func(d *driver) load { return d.cycles(32) }, false, false},
	{"udp guest to host, 64 bytes", "packets/s", "packets/CPU-s", 1, func(d *driver) load { return d.datagramsOut(64) }, false, false},
	{"udp guest to host, 1472 bytes", "packets/s", "packets/CPU-s", 1, func(d *driver) load { return d.datagramsOut(wideDatagram) }, false, false},
	{"udp host to guest, 64 bytes", "packets/s", "packets/CPU-s", 1, func(d *driver) load { return d.datagramsIn(64) }, false, false},
	{"udp host to guest, 1472 bytes", "packets/s", "packets/CPU-s", 1, func(d *driver) load { return d.datagramsIn(wideDatagram) }, false, false},
	{"udp request/response", "1/s", "1/CPU-s", 1, (*driver).datagramRequests, false, false},
}

// driver drives one backend: the guest, and what its handler needs.
type driver struct {
	g     *synth.Guest
	b     *stage.Backend
	peer  *stage.Peer
	event func(*synth.Conn, synth.Event)
	heard func() // of a datagram
	err   error
}

// Event passes events on to the row that runs.
func (d *driver) Event(c *synth.Conn, what synth.Event) {
	if d.event != nil {
		d.event(c, what)
	}
}

// Datagram does the same.
func (d *driver) Datagram(netip.AddrPort, uint16, int) {
	if d.heard != nil {
		d.heard()
	}
}

// measure runs a row and returns its rate and its amount per second of CPU.
func (d *driver) measure(r row, duration time.Duration) (rate, perCPU float64, err error) {
	l := r.load(d)
	d.err = nil
	defer func() { d.event, d.heard = nil, nil }()
	if err := l.begin(); err != nil {
		return 0, 0, err
	}
	if err := d.run(warmUp, l.turn); err != nil {
		return 0, 0, err
	}
	before, err := d.b.Usage()
	if err != nil {
		return 0, 0, err
	}
	from, amount := time.Now(), l.amount()
	if err := d.run(duration, l.turn); err != nil {
		return 0, 0, err
	}
	amount = (l.amount() - amount) * r.scale
	seconds := time.Since(from).Seconds()
	after, err := d.b.Usage()
	if err != nil {
		return 0, 0, err
	}
	if amount <= 0 {
		return 0, 0, fmt.Errorf("nothing went through (guest: %+v)", d.g.Counters)
	}
	l.end()
	if err := d.run(coolDown, nil); err != nil {
		return 0, 0, err
	}
	return amount / seconds, amount / (after.CPU - before.CPU).Seconds(), nil
}

// run lets the guest run for a time.
func (d *driver) run(t time.Duration, turn func()) error {
	err := d.g.Run(t, func() bool {
		if turn != nil {
			turn()
		}
		return d.err != nil
	})
	if errors.Is(err, synth.ErrTimeout) {
		return nil
	}
	return errors.Join(err, d.err)
}
