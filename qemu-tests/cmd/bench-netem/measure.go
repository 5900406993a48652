package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/longpath"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// queueTime is the router's queue in front of the path: enough that no congestion control needs more, and little beside the
// longest delay.
const queueTime = 50 * time.Millisecond

// bench is a lab with a long path, a backend and a guest that runs the commands it is given.
type bench struct {
	o          options
	lab        *lab.Lab
	path       *longpath.Path
	congestion string
	backend    *sandbox.Process
	vm         *guest.VM
	commands   *io.PipeWriter
	steps      int
	closers    []func()
}

func newBench(ctx context.Context, h *harness.Harness, o options) (*bench, error) {
	b := &bench{o: o}
	if err := b.start(ctx, h); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) start(ctx context.Context, h *harness.Harness) (err error) {
	if b.lab, err = h.NewLab(ctx); err != nil {
		return err
	}
	b.closers = append(b.closers, b.lab.Close)
	if b.path, err = b.lab.LongPath(ctx, longpath.Config{}, b.o.mtu, b.o.buffers); err != nil {
		return err
	}
	b.closers = append(b.closers, func() { b.path.Close() })
	if err := b.setCongestion(); err != nil {
		return err
	}
	server, err := b.lab.Start(ctx, b.lab.Peer, "iperf3", "iperf3", "-s")
	if err != nil {
		return err
	}
	b.closers = append(b.closers, server.Kill)
	socket := filepath.Join(b.lab.Dir, "s")
	if b.backend, err = b.lab.StartBackend(ctx, h.Backend, "backend", lab.Link{Path: socket}); err != nil {
		return err
	}
	b.closers = append(b.closers, b.backend.Kill)
	return b.boot(ctx, socket)
}

// setCongestion sets the congestion control of both hosts, or asks what it is.
func (b *bench) setCongestion() error {
	const path = "net/ipv4/tcp_congestion_control"
	for _, ns := range []*sandbox.NetNS{b.lab.VMHost, b.lab.Peer} {
		if b.o.congestion != "" {
			if err := ns.WriteSysctl(path, b.o.congestion); err != nil {
				return err
			}
		}
		err := ns.Do(func() error {
			text, err := os.ReadFile("/proc/sys/" + path)
			b.congestion = strings.TrimSpace(string(text))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// boot starts the guest, which reads commands from its console.
func (b *bench) boot(ctx context.Context, socket string) (err error) {
	config, _ := guest.UMLs(b.lab)
	in, commands := io.Pipe()
	b.commands = commands
	config.Config = guest.Config{
		Name: "netem", Socket: socket, Stdin: in,
		Script: "stty -echo\nstep lease lease || exit\nwhile read -r name command; do step $name sh -c \"$command\"; done\n",
	}
	if b.vm, err = guest.StartUML(ctx, b.lab, config); err != nil {
		return err
	}
	b.closers = append(b.closers, b.vm.Stop, func() { commands.Close() })
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := b.vm.Console.Step(ctx, "lease", 1)
	if err == nil && !s.OK {
		err = fmt.Errorf("the guest has no lease: %s", s.Detail)
	}
	return err
}

func (b *bench) close() {
	for i := range b.closers {
		b.closers[len(b.closers)-1-i]()
	}
}

// tries are for iperf3's server, which may not be done with one client when the next one comes.
const tries = 3

// tryMeasure measures, and again if that fails.
func (b *bench) tryMeasure(ctx context.Context, r *row, inGuest bool) (mbits float64, err error) {
	for range tries {
		time.Sleep(500*time.Millisecond + 3*r.roundTrip)
		if mbits, err = b.measure(ctx, r, inGuest); err == nil || ctx.Err() != nil {
			break
		}
	}
	return mbits, err
}

// measure runs iperf3 once, on the host or in the guest, and returns Mbit/s.
func (b *bench) measure(ctx context.Context, r *row, inGuest bool) (float64, error) {
	b.path.Set(longpath.Config{
		Delay: r.roundTrip / 2, Loss: r.lossPercent / 100, BitsPerSecond: b.o.mbits * 1e6, Queue: queueTime,
	})
	ctx, cancel := context.WithTimeout(ctx, time.Duration(b.o.seconds)*time.Second+time.Minute)
	defer cancel()
	args := []string{"iperf3", "-c", lab.Peer4, "-f", "m", "-t", strconv.Itoa(b.o.seconds)}
	if !r.toHost {
		args = append(args, "-R")
	}
	diagnosed := make(chan error, 1)
	go func() { diagnosed <- b.diagnose(ctx, r, inGuest) }()
	run := b.onHost
	if inGuest {
		run = b.inGuest
	}
	out, err := run(ctx, args)
	if err = errors.Join(err, <-diagnosed); err != nil {
		return 0, err
	}
	return received(out)
}

func (b *bench) onHost(ctx context.Context, args []string) (string, error) {
	return sandbox.Run(ctx, b.lab.Command(b.lab.VMHost, args...))
}

func (b *bench) inGuest(ctx context.Context, args []string) (string, error) {
	b.steps++
	name := fmt.Sprintf("iperf%d", b.steps)
	if _, err := fmt.Fprintf(b.commands, "%s %s | grep receiver\n", name, strings.Join(args, " ")); err != nil {
		return "", err
	}
	s, err := b.vm.Console.Step(ctx, name, 1)
	return s.Detail, err
}

var receivedPattern = regexp.MustCompile(`([0-9.]+) Mbits/sec.*receiver`)

// received picks the receiver's figure out of iperf3's summary.
func received(out string) (float64, error) {
	m := receivedPattern.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("iperf3 does not say what was received: %s", out)
	}
	return strconv.ParseFloat(m[1], 64)
}

// diagnose writes down how sockets and backend are late in a run.
func (b *bench) diagnose(ctx context.Context, r *row, inGuest bool) error {
	if b.o.diagnose == "" {
		return nil
	}
	time.Sleep(time.Duration(b.o.seconds) * time.Second * 2 / 3)
	f, err := os.OpenFile(b.o.diagnose, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("diagnose: %w", err)
	}
	defer f.Close()
	there, back := b.path.Counters()
	fmt.Fprintf(f, "=== %s, in the guest: %v, %s\npath: %+v %+v\n", r, inGuest, time.Now().Format(time.TimeOnly), there, back)
	for _, ns := range []*sandbox.NetNS{b.lab.VMHost, b.lab.Peer} {
		out, err := sandbox.Run(ctx, b.lab.Command(ns, "ss", "-tnmoiH"))
		if err != nil {
			return fmt.Errorf("diagnose: %w", err)
		}
		fmt.Fprintln(f, out)
	}
	if !inGuest {
		return nil
	}
	log := filepath.Join(b.lab.Dir, "backend.log")
	before, _ := os.ReadFile(log)
	if err := b.backend.Signal(syscall.SIGUSR1); err != nil {
		return fmt.Errorf("diagnose: %w", err)
	}
	time.Sleep(100 * time.Millisecond)
	if after, _ := os.ReadFile(log); len(after) > len(before) {
		fmt.Fprintf(f, "%s\n", after[len(before):])
	}
	return nil
}
