package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

const (
	// reservedFiles are the descriptors of a peer that are not for connections.
	reservedFiles = 200
	// firstPeerPort is where the ports of the first peer begin.
	firstPeerPort = 6000
	// returned is how much memory may stay when all connections are gone, more
	// than before the first: room for what the backend keeps for the next ones.
	returnedBytes = 8 << 20
	returnLimit   = 30 * time.Second
)

// measure opens and closes all connections on one program, in as few rounds as
// its descriptors allow.
func measure(ctx context.Context, s *stage.Stage, p stage.Program, files int, o options) (err error) {
	atATime := min(o.flows, p.MaxFlows(files))
	fmt.Printf("%s: %d connections, %d at a time (a process may have %d descriptors)\n", p.Name, o.flows, atATime, files)
	perPeer := files - reservedFiles
	var peers []*stage.Peer
	for n := 0; n < atATime; n += perPeer {
		peer, err := s.StartPeer(ctx, firstPeerPort+uint16(len(peers))*stage.PeerPorts)
		if err != nil {
			return err
		}
		defer peer.Stop()
		peers = append(peers, peer)
	}
	b, err := s.Start(ctx, p, 1500)
	if err != nil {
		return err
	}
	defer b.Stop()
	r := &round{o: o, peers: peers}
	r.g, err = b.Guest(synth.Config{Conns: atATime + 1024, Handler: r, WindowBytes: 64 << 10, Patience: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.g.Close()) }()
	before, err := b.Usage()
	if err != nil {
		return err
	}
	fmt.Printf("  before: %s\n", show(before))
	for done := 0; done < o.flows; done += atATime {
		if err := r.run(b, min(atATime, o.flows-done)); err != nil {
			return fmt.Errorf("%w; it says: %s", err, b.Log())
		}
	}
	return r.after(b, before)
}

// after waits until the memory is returned, and sums up.
func (r *round) after(b *stage.Backend, before stage.Usage) error {
	end := time.Now().Add(returnLimit)
	for {
		u, err := b.Usage()
		if err != nil {
			return err
		}
		ok := u.RSSBytes <= before.RSSBytes+returnedBytes && u.Files <= before.Files
		if ok || time.Now().After(end) {
			fmt.Printf("  after:  %s\n", show(u))
			fmt.Printf("  memory returned: %v, %.1f s after the last close\n", ok, (returnLimit - time.Until(end)).Seconds())
			if !ok {
				return errors.New("memory or descriptors were not returned")
			}
			return r.check()
		}
		if err := r.rest(200 * time.Millisecond); err != nil {
			return err
		}
	}
}

// check compares what the servers saw with what the guest did.
func (r *round) check() error {
	var sum stage.PeerCounters
	for _, p := range r.peers {
		c := p.Counters()
		sum.Accepted += c.Accepted
		sum.Open += c.Open
		sum.Failed += c.Failed
		sum.BytesIn += c.BytesIn
	}
	want := stage.PeerCounters{Accepted: r.o.flows, BytesIn: uint64(r.o.flows * r.o.exchange)}
	if sum != want {
		return fmt.Errorf("the servers counted %+v, not %+v", sum, want)
	}
	c := r.g.Counters
	fmt.Printf("  guest: %d opened, %d closed, %d reset, %d segments of no connection, %d resent\n",
		c.Opened, c.Closed, c.Reset, c.Unknown, c.Resent)
	return nil
}

func show(u stage.Usage) string {
	return fmt.Sprintf("%.1f MiB resident (peak %.1f), %d descriptors, %.2f s CPU",
		float64(u.RSSBytes)/(1<<20), float64(u.PeakBytes)/(1<<20), u.Files, u.CPU.Seconds())
}
