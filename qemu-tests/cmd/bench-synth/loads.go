package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

const connectLimit = 5 * time.Second

// conns opens n connections to a port of the peer and waits for all of them.
func (d *driver) conns(n, role int) (out []*synth.Conn, err error) {
	opened := 0
	d.event = func(_ *synth.Conn, what synth.Event) {
		switch {
		case what&synth.Reset != 0:
			d.err = errors.New("a connection was reset")
		case what&synth.Opened != 0:
			opened++
		}
	}
	for range n {
		c, err := d.g.Connect(stage.PeerAddr, d.peer.Addr(role).Port())
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	err = d.g.Run(connectLimit, func() bool { return opened == n || d.err != nil })
	if err = errors.Join(err, d.err); err != nil {
		return nil, fmt.Errorf("open connections: %w (guest: %+v)", err, d.g.Counters)
	}
	return out, nil
}

// streams sends without end on a connection to each of the roles, or receives.
func (d *driver) streams(roles ...int) load {
	var all []*synth.Conn
	received := slices.Contains(roles, stage.SourcePort)
	return load{
		begin: func() error {
			for _, role := range roles {
				cs, err := d.conns(1, role)
				if err != nil {
					return err
				}
				all = append(all, cs...)
				if role == stage.SinkPort {
					d.g.Send(cs[0], synth.Endless)
				}
			}
			return nil
		},
		amount: func() float64 {
			n := d.peer.Counters().BytesIn
			if received {
				n += d.g.Counters.BytesReceived
			}
			return float64(n)
		},
		end: func() { d.abort(all) },
	}
}

// abort ends connections, whose resets are of no interest.
func (d *driver) abort(cs []*synth.Conn) {
	d.event = nil
	for _, c := range cs {
		d.g.Abort(c)
	}
}

// requests sends a byte on each of n connections, and the next when one comes
// back.
func (d *driver) requests(n int) load {
	var all []*synth.Conn
	done := 0
	return load{
		begin: func() (err error) {
			if all, err = d.conns(n, stage.EchoPort); err != nil {
				return err
			}
			d.event = func(c *synth.Conn, what synth.Event) {
				if what&synth.Received != 0 {
					done++
					d.g.Send(c, 1)
				}
			}
			for _, c := range all {
				d.g.Send(c, 1)
			}
			return nil
		},
		amount: func() float64 { return float64(done) },
		end:    func() { d.abort(all) },
	}
}

// cycles opens a connection, sends a byte, waits for it to come back, and
// closes; n at a time.
func (d *driver) cycles(n int) load {
	done, stop := 0, false
	open := func() {
		port := d.peer.Addr(stage.EchoPort + done%stage.EchoPorts).Port()
		if _, err := d.g.Connect(stage.PeerAddr, port); err != nil {
			d.err = err
		}
	}
	return load{
		begin: func() error {
			d.event = func(c *synth.Conn, what synth.Event) {
				if what&synth.Opened != 0 {
					d.g.Send(c, 1)
				}
				if what&synth.Received != 0 {
					d.g.End(c)
				}
				if what&synth.Reset != 0 {
					d.err = errors.New("a connection was reset")
				}
				if what&synth.Closed != 0 {
					done++
					if !stop {
						open()
					}
				}
			}
			for range n {
				open()
			}
			return nil
		},
		amount: func() float64 { return float64(done) },
		end:    func() { stop = true },
	}
}

// datagramsOut sends datagrams as fast as the ring takes them; those that arrive
// count.
func (d *driver) datagramsOut(size int) load {
	to := d.peer.Addr(stage.DatagramSink)
	return load{
		begin: func() error { return nil },
		turn: func() {
			for ok := true; ok && d.err == nil; {
				ok, d.err = d.g.SendDatagram(to, localUDPPort, size)
			}
		},
		amount: func() float64 { return float64(d.peer.Counters().DatagramsIn) },
		end:    func() {},
	}
}

// datagramsIn asks the peer for datagrams of a size without end; those that
// arrive count.
func (d *driver) datagramsIn(size int) load {
	to := d.peer.Addr(stage.DatagramSource)
	ask := func(n int) {
		if ok, err := d.g.SendDatagram(to, localUDPPort, n); err != nil || !ok {
			d.err = errors.Join(errors.New("cannot ask for datagrams"), err)
		}
	}
	return load{
		begin:  func() error { ask(size); return d.err },
		amount: func() float64 { return float64(d.g.Counters.Datagrams) },
		end:    func() { ask(0); ask(0); ask(0) },
	}
}

// datagramRequests sends a datagram, and the next when it comes back. One that
// is lost is sent again after a while.
func (d *driver) datagramRequests() load {
	const patience = 50 * time.Millisecond
	done, last := 0, time.Now()
	ask := func() {
		last = time.Now()
		if _, err := d.g.SendDatagram(d.peer.Addr(stage.DatagramEcho), localUDPPort, 1); err != nil {
			d.err = err
		}
	}
	return load{
		begin: func() error {
			d.heard = func() { done++; ask() }
			ask()
			return nil
		},
		turn: func() {
			if time.Since(last) > patience {
				ask()
			}
		},
		amount: func() float64 { return float64(done) },
		end:    func() { d.heard = nil },
	}
}
