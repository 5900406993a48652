package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// row is one line of the table. command runs in the guest and prints one number; %s is the seconds, $P the peer.
type row struct {
	name, unit, command string
}

const iperf = `iperf3 -c $P -f m -t %s`

// received picks the receiver's figure out of iperf3's summary, the last one of several.
const received = ` | sed -n 's/.* \([0-9.]*\) Mbits\/sec.*receiver.*/\1/p' | tail -n 1`

var rows = []row{
	{"iperf3 guest to host", "Mbit/s", iperf + received},
	{"iperf3 host to guest", "Mbit/s", iperf + " -R" + received},
	{"iperf3 8 streams guest to host", "Mbit/s", iperf + " -P 8" + received},
	{"iperf3 8 streams host to guest", "Mbit/s", iperf + " -P 8 -R" + received},
	{"netperf TCP_STREAM guest to host", "Mbit/s", netperf("TCP_STREAM")},
	{"netperf TCP_MAERTS host to guest", "Mbit/s", netperf("TCP_MAERTS")},
	{"netperf TCP_RR", "1/s", netperf("TCP_RR")},
	{"netperf TCP_CRR", "1/s", netperf("TCP_CRR")},
	{"netperf UDP_RR", "1/s", netperf("UDP_RR")},
}

func netperf(test string) string {
	return "netperf -H $P -t " + test + " -l %s -P 0 -v 0 | tail -n 1"
}

// measure boots a guest on b and returns the value of each row.
func measure(ctx context.Context, h *harness.Harness, b lab.Backend, mtu, seconds int) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(rows)*(seconds+4)+30)*time.Second)
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
	socket := filepath.Join(l.Dir, "s")
	backend, err := l.StartBackend(ctx, b, "backend", lab.Link{Path: socket}, "-m", strconv.Itoa(mtu))
	if err != nil {
		return nil, err
	}
	defer backend.Kill()
	config, _ := guest.UMLs(l)
	config.Config = guest.Config{Name: "bench", Script: script(seconds), Socket: socket}
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		return nil, err
	}
	defer vm.Stop()
	values, err := collect(ctx, vm)
	if err != nil {
		return nil, err
	}
	return append(values, usageValues(backend)...), nil
}

func script(seconds int) string {
	s := "step lease lease || exit\nP=" + lab.Peer4 + "\n"
	for i, r := range rows {
		// iperf3's server says that it is busy for a moment after each client.
		s += fmt.Sprintf("row%d() { %s; }\nonce%d() { row%d | grep . || { sleep 1; row%d; }; }\nstep row%d once%d\n",
			i, fmt.Sprintf(r.command, strconv.Itoa(seconds)), i, i, i, i, i)
	}
	return s
}

// collect returns the value of each row; NaN where the command failed.
func collect(ctx context.Context, vm *guest.VM) ([]float64, error) {
	if err := vm.Console.Finish(ctx); err != nil {
		return nil, err
	}
	values := make([]float64, len(rows))
	for i := range rows {
		s, err := vm.Console.Step(ctx, fmt.Sprintf("row%d", i), 1)
		if err != nil {
			return nil, err
		}
		if values[i], err = strconv.ParseFloat(strings.TrimSpace(s.Detail), 64); err != nil {
			values[i] = math.NaN() // counted as a failure, and left out of the median
			fmt.Fprintf(os.Stderr, "%s failed: %s\n", rows[i].name, s.Detail)
		}
	}
	return values, nil
}

// usageRows follow the guest's rows; they are about the backend over all of those.
var usageRows = []row{{name: "backend peak memory", unit: "MiB"}, {name: "backend CPU time", unit: "s"}}

func usageValues(p *sandbox.Process) []float64 {
	pid, err := p.PID()
	if err != nil {
		return []float64{0, 0}
	}
	u, err := lab.ReadUsage(pid)
	if err != nil {
		return []float64{0, 0}
	}
	return []float64{float64(u.PeakKiB) / 1024, float64(u.CPUTicks) / 100}
}
