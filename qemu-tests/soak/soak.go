// Package soak keeps random traffic going through the backend, in both directions and of all kinds, and looks whether a byte is
// wrong, anything stalls, or the backend grows.
package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/traffic"
)

// Config describes a soak.
type Config struct {
	Duration time.Duration
	// Streams is how many TCP streams there are at a time, in each direction.
	Streams int
	// Every is the distance of samples of the backend.
	Every time.Duration
	// QEMU takes that for the guest in place of User Mode Linux.
	QEMU bool
	// Logf hears of each sample; required.
	Logf func(format string, args ...any)
}

// Result is what a soak came to.
type Result struct {
	// Served is the traffic from the guest, Sent that to it, both as the hosts saw it. Guest is what the guest says.
	Served, Sent string
	Guest        string
	// Losses are counters of the guest's TCP that tell of what it dropped or sent again.
	Losses       string
	Samples      []Sample
	Before, Last lab.Usage
}

const (
	maxReports = 20
	// echoers is how many sockets send datagrams to each of the guest's addresses.
	echoers = 2
	// restFiles is how many descriptors may be left for the datagrams and pings of a moment ago, whose flows end by time.
	restFiles = 32
	settle    = 10 * time.Second
)

// soak is one that runs.
type soak struct {
	c            Config
	lab          *lab.Lab
	backend      *sandbox.Process
	vm           *guest.VM
	served, sent *traffic.Traffic
	start        time.Time
	closers      []func()

	mu   sync.Mutex
	errs []error
}

// Run soaks the harness's backend. A result comes with an error too.
func Run(ctx context.Context, h *harness.Harness, c Config) (r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Duration+5*time.Minute)
	defer cancel()
	s := &soak{c: c}
	s.served, s.sent = &traffic.Traffic{Report: s.report, Slow: s.slow}, &traffic.Traffic{Report: s.report, Slow: s.slow}
	defer s.close()
	if err := s.setUp(ctx, h); err != nil {
		return r, err
	}
	if r.Before, err = s.usage(); err != nil {
		return r, err
	}
	if err := s.traffic(ctx, &r); err != nil {
		return r, err
	}
	err = s.end(ctx, &r)
	r.Served, r.Sent = s.served.String(), s.sent.String()
	return r, errors.Join(append(s.reports(), err, Flat(r.Samples))...)
}

func (s *soak) close() {
	for i := range s.closers {
		s.closers[len(s.closers)-1-i]()
	}
}

func (s *soak) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errs = append(s.errs, err); len(s.errs) <= maxReports {
		s.c.Logf("%v: %v", time.Since(s.start).Round(time.Second), err)
	}
}

// slow shows waits that are long, if not too long.
func (s *soak) slow(what string) { s.c.Logf("%5.0f s: slow: %s", time.Since(s.start).Seconds(), what) }

// reports returns the first of what went wrong.
func (s *soak) reports() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := s.errs[:min(len(s.errs), maxReports)]
	if len(s.errs) > maxReports {
		errs = append(errs, fmt.Errorf("%d more errors", len(s.errs)-maxReports))
	}
	return errs
}

func (s *soak) usage() (lab.Usage, error) {
	pid, err := s.backend.PID()
	if err != nil {
		return lab.Usage{}, fmt.Errorf("the backend has ended: %w", err)
	}
	return lab.ReadUsage(pid)
}

// setUp starts servers, backend and guest, and waits until the guest has begun.
func (s *soak) setUp(ctx context.Context, h *harness.Harness) (err error) {
	if s.lab, err = h.NewLab(ctx); err != nil {
		return err
	}
	s.closers = append(s.closers, s.lab.Close)
	for _, address := range []string{lab.Peer4, lab.Peer6} {
		l, err := s.lab.Peer.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(traffic.Port)))
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { l.Close() })
		go s.served.Serve(l)
	}
	socket, port := filepath.Join(s.lab.Dir, "s"), strconv.Itoa(traffic.Port)
	if s.backend, err = s.lab.StartBackend(ctx, h.Backend, "backend", lab.Link{Path: socket}, "-t", port, "-u", port); err != nil {
		return err
	}
	s.closers = append(s.closers, s.backend.Kill)
	if err := s.boot(ctx, h, guest.Config{Name: "soak", Socket: socket, Script: s.script()}); err != nil {
		return err
	}
	s.closers = append(s.closers, s.vm.Stop)
	s.start = time.Now()
	step, err := s.vm.Console.Step(ctx, "ready", 1)
	if err == nil && !step.OK {
		err = fmt.Errorf("the guest is not ready: %s", step.Detail)
	}
	return err
}

func (s *soak) boot(ctx context.Context, h *harness.Harness, c guest.Config) (err error) {
	if s.c.QEMU {
		s.vm, err = guest.StartQEMU(ctx, s.lab, guest.QEMUConfig{Config: c, Kernel: h.Kernel})
		return err
	}
	uml, _ := guest.UMLs(s.lab)
	uml.Config = c
	s.vm, err = guest.StartUML(ctx, s.lab, uml)
	return err
}

// script is the guest's part. Its server lives until the flag is raised.
func (s *soak) script() string {
	return fmt.Sprintf(`
step lease lease || exit
step slaac slaac || exit
# Memory for all streams at once: a guest that runs out of it drops what it was sent.
echo 65536 81920 98304 >/proc/sys/net/ipv4/tcp_mem
echo 4096 131072 1048576 >/proc/sys/net/ipv4/tcp_rmem
echo 4096 16384 1048576 >/proc/sys/net/ipv4/tcp_wmem
guest-agent soak-serve %[1]d &
step ready sleep 1
step soak guest-agent soak %[2]s,%[3]s %[4]d %[5]d
wait_host() { while :; do busybox wget -q -O /dev/null '%[6]s' 2>/dev/null && return 0; sleep 0.5; done; }
step host wait_host
losses() {
	{ read -r names; read -r values; } </proc/net/netstat
	set -- $values
	for n in $names; do
		case $n in *Drop|*Pruned|*Timeouts|*Pressures*|*LostRetransmit) [ "$1" = 0 ] || printf '%%s %%s ' "$n" "$1" ;; esac
		shift
	done
}
step losses losses
`, traffic.Port, lab.Peer4, lab.Peer6, int(s.c.Duration.Seconds()), s.c.Streams, peer.URL(lab.Peer4, "flag"))
}
