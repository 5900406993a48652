package main

import (
	"flag"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedianAndRatio(t *testing.T) {
	for _, tt := range []struct {
		values []sample
		want   float64
	}{{nil, 0}, {[]sample{3}, 3}, {[]sample{5, 1, 3}, 3}, {[]sample{4, 1, 3, 2}, 2.5}, {[]sample{9, sample(nan), 7}, 8}} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %v", tt.values, got)
		}
	}
	if ratio(1, 0) != 0 || ratio(nan, 1) != 0 || ratio(1, nan) != 0 {
		t.Error("a ratio of nothing")
	}
	if got := ratioRange([]sample{2, sample(nan), 9}, []sample{1, 1, 3, 5}); got != [2]float64{2, 3} {
		t.Errorf("range %v", got)
	}
}

func TestReceived(t *testing.T) {
	const (
		one   = `[  5]   0.00-2.00   sec  1.15 GBytes  4930 Mbits/sec                  receiver`
		both  = `[  5][TX-C]   0.00-2.00   sec   1.15 GBytes  4000 Mbits/sec                  receiver [  7][RX-C]   0.00-2.00   sec   600 MBytes  2000 Mbits/sec                  receiver`
		eight = `[ 19]   0.00-2.00   sec   100 MBytes  400 Mbits/sec                  receiver [SUM]   0.00-2.00   sec   800 MBytes  3200 Mbits/sec                  receiver`
		udp   = `[  5]   0.00-1.00   sec  16.5 MBytes   138 Mbits/sec  0.012 ms  5/11000 (0.045%)  receiver`
	)
	for _, tt := range []struct {
		out          string
		mbits, bytes float64
	}{{one, 4930, 4930e6 / 4}, {both, 6000, 6000e6 / 4}, {eight, 3200, 800e6}, {udp, 138, 138e6 / 8}} {
		mbits, bytes, err := received(tt.out)
		if err != nil || mbits != tt.mbits || math.Abs(bytes-tt.bytes) > 1 {
			t.Errorf("%q: %v Mbit/s, %v bytes, %v", tt.out, mbits, bytes, err)
		}
	}
	for _, out := range []string{"", "iperf3: error - unable to connect", "[  5]   0.00-1.01   sec  0.00 Bytes  0.00 Mbits/sec  0.000 ms  0/0 (0%)  receiver"} {
		if _, _, err := received(out); err == nil {
			t.Errorf("%q is taken for a value", out)
		}
	}
}

func TestNumbers(t *testing.T) {
	if got, err := numbers("4645.9,94,1500 ", 3); err != nil || !cmp.Equal(got, []float64{4645.9, 94, 1500}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "1,2", "0.00,0,0", "Connection reset by peer", "a,b,c"} {
		if _, err := numbers(text, 3); err == nil {
			t.Errorf("%q is taken for values", text)
		}
	}
}

func TestParse(t *testing.T) {
	parseLine := func(line string) (options, error) {
		fs := flag.NewFlagSet("bench", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		return parse(fs, strings.Fields(line))
	}
	o, err := parseLine("-runs 1 -guests uml-7.2 -mtu 1500 -peers passt,slirp -rows RR -merge")
	if err != nil || o.runs != 1 || !cmp.Equal(o.guests, []string{umlGuest}) || !cmp.Equal(o.mtus, []int{1500}) ||
		!cmp.Equal(o.peers, []string{passt, slirp}) || !o.rows.MatchString("TCP_CRR") || !o.merge {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parseLine(""); err != nil || o.runs != 5 || len(o.guests) != 2 || len(o.mtus) != 2 || len(o.peers) != 3 {
		t.Errorf("by default: %+v, %v", o, err)
	}
	for _, line := range []string{"-runs -1", "-seconds 0", "-guests vax", "-mtu 90", "-mtu x", "-peers nobody", "-rows (", "word", "-fly"} {
		if _, err := parseLine(line); err == nil {
			t.Errorf("%q is right", line)
		}
	}
}

func TestEveryRowHasOneName(t *testing.T) {
	seen := map[string]bool{}
	for _, test := range tests() {
		if test.rows[0].name != test.name {
			t.Errorf("the first row of %q is %q", test.name, test.rows[0].name)
		}
		for _, r := range test.rows {
			if seen[r.name] || r.unit == "" {
				t.Errorf("%q: twice, or without a unit", r.name)
			}
			seen[r.name] = true
		}
	}
	for _, name := range []string{
		"TCP both directions at once, sum", "TCP_RR 80 000 bytes: p90", "TCP host to guest, 8 streams: peak of the backend's memory",
		"UDP host to guest, 16000 bytes", "TCP_CRR, IPv6", "TCP host to guest beside 10000 idle flows", "start-up to a listening socket",
	} {
		if !seen[name] {
			t.Errorf("there is no %q", name)
		}
	}
}

func TestWhoCannot(t *testing.T) {
	b := &bench{gvproxy: program{path: "/somewhere"}}
	for _, tt := range []struct {
		peer, guest string
		mtu         int
		can         bool
	}{
		{ours, umlGuest, 65520, true},
		{passt, qemuGuest, 1500, true},
		{slirp, umlGuest, 1500, false},
		{slirp, qemuGuest, 1500, true},
		{slirp, qemuGuest, 65520, false},
		{gvisor, umlGuest, 1500, false},
		{gvisor, qemuGuest, 65520, true},
	} {
		if why := b.cannotServe(tt.peer, tt.guest, tt.mtu); (why == "") != tt.can {
			t.Errorf("%s, %s, %d: %q", tt.peer, tt.guest, tt.mtu, why)
		}
	}
	b.gvproxy = program{missing: "could not be built"}
	if why := b.cannotServe(gvisor, qemuGuest, 1500); why != "could not be built" {
		t.Errorf("without gvproxy: %q", why)
	}
	six := tcpTest("x", 6, "")
	if cannotMeasure(gvisor, six) == "" || cannotMeasure(passt, six) != "" || cannotMeasure(slirp, startUp()) == "" {
		t.Error("who can measure what")
	}
	if cannotMeasure(passt, &test{flows: maxFiles()}) == "" || cannotMeasure(ours, &test{flows: maxFiles() / 2}) != "" {
		t.Error("who has enough descriptors")
	}
}
