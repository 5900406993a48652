package soak

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/traffic"
)

// door is a way into the guest: an address that the backend listens on, and who uses it.
type door struct {
	from    *sandbox.NetNS
	address string
}

func (s *soak) doors() []door {
	port := strconv.Itoa(traffic.Port)
	var doors []door
	for _, d := range []door{
		{s.lab.VMHost, "127.0.0.1"}, {s.lab.VMHost, "::1"}, {s.lab.Peer, lab.VMHost4}, {s.lab.Peer, lab.VMHost6},
	} {
		doors = append(doors, door{d.from, net.JoinHostPort(d.address, port)})
	}
	return doors
}

func (d door) dial(ctx context.Context, network string) (conn net.Conn, err error) {
	err = d.from.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, d.address)
		return err
	})
	return conn, err
}

// traffic makes the hosts' part of the traffic and takes samples meanwhile.
func (s *soak) traffic(ctx context.Context, r *Result) error {
	busy, cancel := context.WithTimeout(ctx, s.c.Duration)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	var servers []traffic.Dial
	for _, d := range s.doors() {
		servers = append(servers, func(ctx context.Context) (net.Conn, error) { return d.dial(ctx, "tcp") })
		for range echoers {
			conn, err := d.dial(ctx, "udp")
			if err != nil {
				cancel()
				return err
			}
			all.Go(func() {
				defer conn.Close()
				s.sent.Echo(busy, conn)
			})
		}
	}
	all.Go(func() { s.sent.Run(busy, s.c.Streams, servers) })
	tick := time.NewTicker(s.c.Every)
	defer tick.Stop()
	for {
		select {
		case <-busy.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := s.sample(r); err != nil {
			cancel()
			return err
		}
	}
}

func (s *soak) sample(r *Result) error {
	u, err := s.usage()
	if err != nil {
		return err
	}
	r.Samples = append(r.Samples, Sample{time.Since(s.start), u})
	bytes := s.served.Bytes.Load() + s.sent.Bytes.Load()
	s.c.Logf("%5.0f s: %d MiB received by hosts, %d streams; backend %v", time.Since(s.start).Seconds(), bytes>>20,
		s.served.Streams.Load()+s.sent.Streams.Load(), u)
	return nil
}

// end waits for the guest's last words, and for the backend to close what it held.
func (s *soak) end(ctx context.Context, r *Result) error {
	step, err := s.vm.Console.Step(ctx, "soak", 1)
	if err != nil {
		return err
	}
	r.Guest = step.Detail
	for end := time.Now().Add(settle); ; time.Sleep(200 * time.Millisecond) {
		if r.Last, err = s.usage(); err != nil {
			return err
		}
		if r.Last.Files <= r.Before.Files+restFiles {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the backend keeps descriptors: %v; before: %v", r.Last, r.Before)
		}
	}
	s.lab.Servers.Flag()
	if err := s.vm.Console.Finish(ctx); err != nil {
		return err
	}
	for _, step := range s.vm.Console.Steps() {
		if step.Name == "losses" {
			r.Losses = step.Detail
		}
		if !step.OK {
			s.report(fmt.Errorf("guest: %s: %s", step.Name, step.Detail))
		}
	}
	return nil
}
