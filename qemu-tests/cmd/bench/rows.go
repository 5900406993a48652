package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// row is a line of the table.
type row struct {
	name, unit string
	lower      bool // is better
	process    bool // is about the backend's process, which a backend inside of QEMU does not have
}

// test is one measurement, which gives the values of one or more rows.
type test struct {
	name   string // -rows looks at it
	rows   []row
	family int // 4 or 6
	flows  int // that are there besides
	// process: all of it is about the backend's process. limit: it shows what there would be without a backend, and is measured
	// with our guest only.
	process, limit bool
	// before and after, if not nil, prepare all runs and end them.
	before, after func(ctx context.Context, s *stand) error
	measure       func(ctx context.Context, s *stand, seconds int) ([]float64, error)
}

// tests returns everything that is measured, in the order of the table.
func tests() []*test {
	var out []*test
	add := func(t ...*test) { out = append(out, t...) }
	for _, family := range []int{4, 6} {
		v := ""
		if family == 6 {
			v = ", IPv6"
		}
		add(tcpTest("TCP guest to host, 1 stream"+v, family, ""), tcpTest("TCP host to guest, 1 stream"+v, family, "-R"))
		if family == 4 {
			add(tcpTest("TCP guest to host, 8 streams", 4, "-P 8"), tcpTest("TCP host to guest, 8 streams", 4, "-P 8 -R"),
				tcpTest("TCP both directions at once, sum", 4, "--bidir"))
		}
		add(rrTest("TCP_RR 1 byte"+v, family, "TCP_RR", 1, "p50", "p99"))
		if family == 4 {
			add(rrTest("TCP_RR 80 000 bytes", 4, "TCP_RR", 80_000, "p90", "p99"))
		}
		add(rrTest("TCP_CRR"+v, family, "TCP_CRR", 1), rrTest("UDP_RR"+v, family, "UDP_RR", 1))
		sizes := []int{64, 1472, 16_000}
		if family == 6 {
			sizes = []int{1452} // as much as 1500 bytes of packet hold
		}
		for _, n := range sizes {
			add(udpTest(fmt.Sprintf("UDP guest to host, %d bytes%s", n, v), family, n, ""),
				udpTest(fmt.Sprintf("UDP host to guest, %d bytes%s", n, v), family, n, "-R"))
		}
	}
	for _, n := range []int{0, 1000, 10_000} {
		add(idleTest(n))
	}
	add(idleMemory(), startUp())
	add(limits()...)
	return out
}

func peerAddress(family int) string {
	if family == 6 {
		return lab.Peer6
	}
	return lab.Peer4
}

// tcpTest is iperf3 with more options. It also tells the backend's processor time, and with eight streams its memory.
func tcpTest(name string, family int, options string) *test {
	rows := []row{{name: name, unit: "Mbit/s"}, {name: name + ": CPU time of the backend", unit: "s/GB", lower: true, process: true}}
	eight := len(options) > 3 && options[:4] == "-P 8"
	if eight {
		rows = append(rows, row{name: name + ": peak of the backend's memory", unit: "MiB", lower: true, process: true})
	}
	return &test{name: name, family: family, rows: rows, measure: func(ctx context.Context, s *stand, seconds int) ([]float64, error) {
		u, err := s.beginUsage()
		if err != nil {
			return nil, err
		}
		mbits, bytes, err := s.iperf(ctx, peerAddress(family), seconds, options)
		if err != nil {
			return nil, err
		}
		cpu, peak := u.end(s)
		values := []float64{mbits, cpu / (bytes / 1e9)}
		if eight {
			values = append(values, peak)
		}
		return values, nil
	}}
}

// rrTest is netperf with requests and responses of n bytes: the rate, and percentiles of the time of one.
func rrTest(name string, family int, program string, n int, percentiles ...string) *test {
	rows := []row{{name: name, unit: "1/s"}}
	for _, p := range percentiles {
		rows = append(rows, row{name: name + ": " + p, unit: "µs", lower: true})
	}
	return &test{name: name, family: family, rows: rows, measure: func(ctx context.Context, s *stand, seconds int) ([]float64, error) {
		return s.netperf(ctx, peerAddress(family), seconds, program, n, percentiles)
	}}
}

// udpTest floods with datagrams of n bytes; what arrives counts.
func udpTest(name string, family, n int, options string) *test {
	options = "-u -b 0 -l " + strconv.Itoa(n) + " " + options
	rows := []row{{name: name, unit: "Mbit/s"}}
	return &test{name: name, family: family, rows: rows, measure: func(ctx context.Context, s *stand, seconds int) ([]float64, error) {
		mbits, _, err := s.iperf(ctx, peerAddress(family), seconds, options)
		if err != nil && n > 1472 {
			// iperf3 gives up when it is told of a path with a smaller MTU. The guest knows that MTU now.
			mbits, _, err = s.iperf(ctx, peerAddress(family), seconds, options)
		}
		return []float64{mbits}, err
	}}
}

// idleTest is a stream beside n connections that do nothing.
func idleTest(n int) *test {
	name := fmt.Sprintf("TCP host to guest beside %d idle flows", n)
	t := &test{name: name, family: 4, flows: n, rows: []row{{name: name, unit: "Mbit/s"}}}
	t.measure = func(ctx context.Context, s *stand, seconds int) ([]float64, error) {
		mbits, _, err := s.iperf(ctx, lab.Peer4, seconds, "-R")
		return []float64{mbits}, err
	}
	if n > 0 {
		t.before = func(ctx context.Context, s *stand) error { return s.openIdle(ctx, n) }
		t.after = func(ctx context.Context, s *stand) error { return s.closeIdle(ctx) }
	}
	return t
}

func idleMemory() *test {
	const name = "memory of the backend, idle"
	return &test{
		name: name, family: 4, process: true, rows: []row{{name: name, unit: "MiB", lower: true, process: true}},
		measure: func(_ context.Context, s *stand, _ int) ([]float64, error) { return []float64{s.idleMiB}, nil },
	}
}

func startUp() *test {
	const name = "start-up to a listening socket"
	return &test{
		name: name, family: 4, process: true, rows: []row{{name: name, unit: "ms", lower: true, process: true}},
		measure: func(ctx context.Context, s *stand, _ int) ([]float64, error) {
			ms, err := s.startUpMs(ctx)
			return []float64{ms}, err
		},
	}
}

// limits are what the machine does without a backend.
func limits() []*test {
	limit := func(name, unit string, measure func(ctx context.Context, s *stand, seconds int) (float64, error)) *test {
		return &test{
			name: name, family: 4, limit: true, rows: []row{{name: name, unit: unit}},
			measure: func(ctx context.Context, s *stand, seconds int) ([]float64, error) {
				v, err := measure(ctx, s, seconds)
				return []float64{v}, err
			},
		}
	}
	var out []*test
	for _, c := range []struct{ name, options string }{{"1 stream", ""}, {"8 streams", "-P 8"}} {
		out = append(out,
			limit("limit: two namespaces without a VM, TCP, "+c.name, "Mbit/s", func(ctx context.Context, s *stand, seconds int) (float64, error) {
				return s.hostIperf(ctx, seconds, c.options)
			}),
			limit("limit: the guest's loopback, TCP, "+c.name, "Mbit/s", func(ctx context.Context, s *stand, seconds int) (float64, error) {
				mbits, _, err := s.iperf(ctx, "127.0.0.1", seconds, c.options)
				return mbits, err
			}))
	}
	out = append(out, limit("limit: the guest's loopback, TCP_RR 1 byte", "1/s", func(ctx context.Context, s *stand, seconds int) (float64, error) {
		v, err := s.netperf(ctx, "127.0.0.1", seconds, "TCP_RR", 1, nil)
		if err != nil {
			return 0, err
		}
		return v[0], nil
	}))
	return out
}
