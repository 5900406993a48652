package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// extra is what a program may take beside the seconds that it measures.
const extra = 20 * time.Second

// iperf runs iperf3 in the guest, and returns what its receivers saw.
func (s *stand) iperf(ctx context.Context, address string, seconds int, options string) (mbits, bytes float64, err error) {
	// The server may be busy with the client before for a moment.
	once := fmt.Sprintf("iperf3 -c %s -f m -t %d %s 2>&1", address, seconds, options)
	command := fmt.Sprintf("f() { %s | grep -e receiver -e error; }; o=$(f); case $o in *receiver*) ;; *) sleep 1; o=$(f) ;; esac; echo \"$o\" | tail -n 2", once)
	out, err := s.inGuest(ctx, 2*time.Duration(seconds)*time.Second+extra, command)
	if err != nil {
		return 0, 0, err
	}
	return received(out)
}

// hostIperf is iperf from the VM's host.
func (s *stand) hostIperf(ctx context.Context, seconds int, options string) (float64, error) {
	args := append([]string{"iperf3", "-c", lab.Peer4, "-f", "m", "-t", strconv.Itoa(seconds)}, strings.Fields(options)...)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+extra)
	defer cancel()
	out, err := sandbox.Run(ctx, s.lab.Command(s.lab.VMHost, args...))
	if err != nil {
		return 0, err
	}
	mbits, _, err := received(out)
	return mbits, err
}

var receivedPattern = regexp.MustCompile(`(\[SUM\])?\S*\s+([0-9.]+)-([0-9.]+)\s+sec\s+[0-9.]+ [KMGT]?Bytes\s+([0-9.]+) Mbits/sec[^\[]*receiver`)

// received adds the receivers' figures of iperf3's summary: the sum of all streams of one direction, if there is one, and both
// directions.
func received(out string) (mbits, bytes float64, err error) {
	lines := receivedPattern.FindAllStringSubmatch(out, -1)
	sums := strings.Contains(out, "[SUM]")
	found := false
	for _, m := range lines {
		if sums && m[1] == "" {
			continue
		}
		found = true
		var v [3]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(m[2+i], 64); err != nil {
				return 0, 0, fmt.Errorf("iperf3: %w", err)
			}
		}
		mbits += v[2]
		bytes += v[2] * 1e6 / 8 * (v[1] - v[0])
	}
	if !found || mbits == 0 {
		return 0, 0, fmt.Errorf("iperf3 does not say that anything was received: %s", out)
	}
	return mbits, bytes, nil
}

// netperf runs a test of requests and responses in the guest: transactions per second, and percentiles in µs.
func (s *stand) netperf(ctx context.Context, address string, seconds int, program string, n int, percentiles []string) ([]float64, error) {
	columns := []string{"THROUGHPUT"}
	for _, p := range percentiles {
		columns = append(columns, strings.ToUpper(p)+"_LATENCY")
	}
	family := ""
	if strings.Contains(address, ":") {
		family = "-6 "
	}
	command := fmt.Sprintf("netperf %s-H %s -t %s -l %d -P 0 -- -r %d,%d -o %s | tail -n 1",
		family, address, program, seconds, n, n, strings.Join(columns, ","))
	out, err := s.inGuest(ctx, time.Duration(seconds)*time.Second+extra, command)
	if err != nil {
		return nil, err
	}
	return numbers(out, len(columns))
}

// numbers reads n numbers with commas between them.
func numbers(text string, n int) ([]float64, error) {
	var out []float64
	for _, f := range strings.Split(strings.TrimSpace(text), ",") {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, fmt.Errorf("netperf says %q", text)
		}
		out = append(out, v)
	}
	if len(out) != n || out[0] <= 0 {
		return nil, fmt.Errorf("netperf says %q", text)
	}
	return out, nil
}
