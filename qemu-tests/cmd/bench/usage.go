package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

func (s *stand) usage() (stage.Usage, error) {
	pid, err := s.backend.PID()
	if err != nil {
		return stage.Usage{}, fmt.Errorf("%s has ended: %w", s.name, err)
	}
	return stage.ReadUsage(pid)
}

// usageSince is the start of a measurement of the backend's processor time and memory.
type usageSince struct{ at stage.Usage }

// beginUsage lets the peak of the backend's memory begin anew.
func (s *stand) beginUsage() (u usageSince, err error) {
	if s.backend == nil {
		return u, nil
	}
	pid, err := s.backend.PID()
	if err != nil {
		return u, fmt.Errorf("%s has ended: %w", s.name, err)
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil { // proc_pid_clear_refs(5)
		return u, fmt.Errorf("reset the peak of memory: %w", err)
	}
	u.at, err = s.usage()
	return u, err
}

// end returns seconds of processor time and the peak in MiB; NaN where there are none.
func (u usageSince) end(s *stand) (cpu, peak float64) {
	if s.backend == nil {
		return math.NaN(), math.NaN()
	}
	now, err := s.usage()
	if err != nil {
		return math.NaN(), math.NaN()
	}
	return (now.CPU - u.at.CPU).Seconds(), float64(now.PeakBytes) / (1 << 20)
}

// starts is how often a program is started for one value.
const starts = 5

// startUpMs is the median time from the start of the program to a socket that takes connections.
func (s *stand) startUpMs(ctx context.Context) (float64, error) {
	var all []float64
	for i := range starts {
		ms, err := s.startOnce(ctx, filepath.Join(s.lab.Dir, fmt.Sprintf("u%d", i)))
		if err != nil {
			return 0, err
		}
		all = append(all, ms)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

func (s *stand) startOnce(ctx context.Context, socket string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c := sandbox.Command{Args: s.startArgs(socket), Net: s.lab.VMHost}
	start := time.Now()
	p, err := sandbox.Start(ctx, c)
	if err != nil {
		return 0, err
	}
	defer os.Remove(socket)
	defer p.Kill()
	for ctx.Err() == nil {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			took := time.Since(start)
			conn.Close()
			return float64(took.Microseconds()) / 1000, nil
		}
		select {
		case <-p.Done():
			return 0, errors.New(s.name + " has ended at once")
		case <-time.After(100 * time.Microsecond):
		}
	}
	return 0, ctx.Err()
}

// startArgs starts the program by itself, without the view of a tree: making that takes longer than the start.
func (s *stand) startArgs(socket string) []string {
	mtu := strconv.Itoa(s.mtu)
	switch s.name {
	case gvisor:
		return []string{s.b.gvproxy.path, "-listen-qemu", "unix://" + socket, "-mtu", mtu, "-ssh-port", "2223"}
	case passt:
		root, p := s.lab.Tree.Root, lab.Passt()
		return append([]string{
			root + "/lib64/ld-linux-x86-64.so.2", "--library-path", root + "/usr/lib/x86_64-linux-gnu", root + p.Path,
		}, append(p.Args, "-s", socket, "-m", mtu)...)
	}
	o := s.b.h.Backend
	return append(append([]string{o.Path}, o.Args...), "-s", socket, "-m", mtu)
}
