package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// row is a value of a run.
type row struct {
	name, unit string
	lower      bool // less is better
}

var rows = []row{
	{"80 000 bytes each way, rate", "1/s", false},
	{"p90", "us", true},
	{"p99", "us", true},
	{"stream to the guest", "Mbit/s", false},
	{"8 streams to the guest", "Mbit/s", false},
}

// script prints a step for each command; the first reports three values.
const script = `step lease lease || exit
P=` + lab.Peer4 + `
rr() { netperf -H $P -t TCP_RR -l %[1]d -P 0 -- -r 80000,80000 -o TRANSACTION_RATE,P90_LATENCY,P99_LATENCY | tail -n 1; }
stream() { iperf3 -c $P -f m -t %[1]d -R $* | sed -n 's/.* \([0-9.]*\) Mbits\/sec.*receiver.*/\1/p' | tail -n 1; }
again() { "$@" | grep . || { sleep 1; "$@"; }; }
step rr rr
step one again stream
step eight again stream -P 8
`

// measure boots a guest on a backend whose frames have that size and returns the values of rows; NaN where one failed.
func (b bench) measure(ctx context.Context, h *harness.Harness, size string) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(3*(b.seconds+4)+30)*time.Second)
	defer cancel()
	l, err := h.NewLab(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for name, args := range map[string][]string{"iperf3": {"iperf3", "-s"}, "netserver": {"netserver", "-D"}} {
		p, err := l.Start(ctx, l.Peer, name, args...)
		if err != nil {
			return nil, err
		}
		defer p.Kill()
	}
	args := []string{"-m", b.mtu, "--gso-max-size", size}
	if size == "off" {
		args = []string{"-m", b.mtu, "--no-big-tcp"}
	}
	socket := filepath.Join(l.Dir, "s")
	backend, err := l.StartBackend(ctx, h.Backend, "backend", lab.Link{Path: socket}, args...)
	if err != nil {
		return nil, err
	}
	defer backend.Kill()
	config, _ := guest.UMLs(l)
	config.Config = guest.Config{Name: "bench", Script: fmt.Sprintf(script, b.seconds), Socket: socket}
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		return nil, err
	}
	defer vm.Stop()
	if err := vm.Console.Finish(ctx); err != nil {
		return nil, err
	}
	var values []float64
	for _, c := range []struct {
		step string
		n    int
	}{{"rr", 3}, {"one", 1}, {"eight", 1}} {
		s, err := vm.Console.Step(ctx, c.step, 1)
		if err != nil {
			return nil, err
		}
		values = append(values, numbers(s.Detail, c.n)...)
	}
	return values, nil
}

// numbers reads n numbers, separated by commas; NaN where there is none.
func numbers(text string, n int) []float64 {
	parts, values := strings.Split(strings.TrimSpace(text), ","), make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
		if i < len(parts) {
			if v, err := strconv.ParseFloat(strings.TrimSpace(parts[i]), 64); err == nil {
				values[i] = v
			}
		}
	}
	return values
}
