package netstack

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/icmp"
	"github.com/vhost-net-go/vhost-net-go/netstack/reassembly"
	"github.com/vhost-net-go/vhost-net-go/netstack/tcp"
	"github.com/vhost-net-go/vhost-net-go/netstack/udp"
)

// Counters count since the worker was made.
type Counters struct {
	Turns           uint64 // of the worker's loop; an idle worker makes none
	FramesFromGuest uint64
	BytesFromGuest  uint64 // with the vnet header
	Dropped         [header.NumVerdicts]uint64
	NotForUs        uint64 // addressed to another station
	NotServed       uint64 // protocols that are off or unknown
	TxDisabled      uint64 // frames dropped while the ring was disabled
	TxBroken        uint64 // rings stopped because the driver broke a rule
	RxBroken        uint64
	Faults          uint64 // guest memory vanished
}

// Snapshot is the state of a worker at one moment.
type Snapshot struct {
	Counters Counters
	Queue    framequeue.Counters
	TCP      tcp.Counters
	TCPFlows int
	UDP      udp.Counters
	UDPFlows int
	// TCPMaxFlows and UDPMaxFlows are how many flows there may be.
	TCPMaxFlows, UDPMaxFlows int

	Ping  icmp.Counters
	Pings int

	Reassembly reassembly.Counters
	Moves      MoveCounters // zero where there is one queue pair
}

// Forwards returns the forwarding rules as they were met, in the order in which
// their sockets were opened.
func (w *Worker) Forwards() []Forward { return w.protos.forwards }

// Snapshot returns the counters. It parks the worker for a moment.
func (w *Worker) Snapshot() Snapshot {
	var s Snapshot
	w.Park(func() { s = w.snapshot() })
	return s
}

// snapshot is Snapshot. Parked.
func (w *Worker) snapshot() (s Snapshot) {
	s.Counters, s.Queue = w.counters, w.queue.Counters
	if t := w.protos.tcp; t != nil {
		s.TCP, s.TCPFlows, s.TCPMaxFlows = t.Counters, t.NumFlows(), t.MaxFlows()
	}
	if u := w.protos.udp; u != nil {
		s.UDP, s.UDPFlows, s.UDPMaxFlows = u.Stats(), u.NumFlows(), u.MaxFlows()
	}
	if p := w.protos.icmp; p != nil {
		s.Ping, s.Pings = p.Stats(), p.NumFlows()
	}
	s.Reassembly = w.protos.fragments.Counters
	if w.others != nil {
		s.Moves = w.others.counters
	}
	return s
}
