package tcp

import (
	"fmt"
	"testing"
)

// scenario is a named script.
type scenario struct {
	name  string
	setup setup
	text  string
}

func runAll(t *testing.T, all []scenario) {
	t.Helper()
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) { runScript(t, s.setup, s.text) })
	}
}

func TestConnectFromGuest(t *testing.T) {
	runAll(t, []scenario{
		{"SYN-ACK when the host is connected", setup{}, `
			guest > S 0 win 65535 mss 1460 wscale 7
			backend < S. 0 ack 1 win 65535 mss 1460 wscale 7
			guest > . 1 ack 1
			host accepts
			backend silent
		`},
		{"over IPv6", setup{v6: true}, `
			guest > S 0 win 65535 mss 1440 wscale 7
			backend < S. 0 ack 1 mss 1440 wscale 7
			guest > . 1 ack 1
			host accepts
			host writes 2000
			backend < . 1:1441 ack 1
			backend < . 1441:2001 ack 1
			guest > . 1:101 ack 2001
			host reads 100
		`},
		{"MSS from the MTU", setup{mtu: 9000}, `
			guest > S 0 mss 8960
			backend < S. 0 ack 1 mss 8960
		`},
		{"no window scale unless offered", setup{}, `
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460 win 65535
			guest > . 1 ack 1 win 1000
			host accepts
			host writes 3000
			backend < . 1:1001 ack 1
			backend silent
		`},
		{"no MSS option means 536", setup{}, `
			guest > S 0
			backend < S. 0 ack 1 mss 1460
			guest > . 1 ack 1
			host accepts
			host writes 1000
			backend < . 1:537
			backend < . 537:1001
		`},
		{"no MSS option means 1220 over IPv6", setup{v6: true}, `
			guest > S 0
			backend < S. 0 ack 1 mss 1440
			guest > . 1 ack 1
			host accepts
			host writes 1500
			backend < . 1:1221
			backend < . 1221:1501
		`},
		{"MSS larger than the MTU", setup{}, `
			guest opens mss 9000
			host writes 2000
			backend < . 1:1461
			backend < . 1461:2001
		`},
		{"MSS of one byte", setup{}, `
			guest opens mss 1
			host writes 60
			backend < . 1:49
			backend < . 49:61
		`},
		{"ECN and unknown flags are accepted", setup{}, `
			guest > SEW 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			guest > E. 1:101 ack 1
			host accepts
			host reads 100
		`},
		{"data on the last ACK of the handshake", setup{}, `
			guest > S 0 mss 1460 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			guest > P. 1:101 ack 1
			host accepts
			host reads 100
			+40ms
			backend < . 1 ack 101
		`},
		{"data and FIN on the last ACK of the handshake", setup{}, `
			guest > S 0 mss 1460 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			guest > FP. 1:101 ack 1
			+40ms
			backend < . 1 ack 102
			host accepts
			host reads 100
			host reads end
			host writes 10
			backend < . 1:11 ack 102
			host closes
			backend < F. 11 ack 102
			guest > . 102 ack 12
			flows 0
		`},
		{"the ACK of the handshake is lost, data comes", setup{}, `
			guest > S 0 mss 1460 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			guest > . 1461:2921 ack 1
			backend < . 1 ack 1
			guest > . 1:1461 ack 1
			host accepts
			host reads 1460
		`},
		{"the host speaks before the guest's ACK", setup{}, `
			guest > S 0 mss 1460 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			host accepts
			host writes 100
			backend silent
			guest > . 1 ack 1
			backend < P. 1:101 ack 1
		`},
	})
}

func TestRepeatedSYN(t *testing.T) {
	runAll(t, []scenario{
		{"opens one socket, gets the same SYN-ACK", setup{}, `
			guest > S 0 mss 1460 wscale 7 more
			guest > S 0 mss 1460 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			guest > S 0 mss 1460 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			flows 1
			guest > . 1 ack 1
			host accepts
		`},
		{"SYN-ACK is repeated as SYN-ACK, with back-off", setup{}, `
			guest > S 0 mss 1460 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			+999ms
			backend silent
			+1ms
			backend < S. 0 ack 1 win 65535 mss 1460 wscale 7
			+1999ms
			backend silent
			+1ms
			backend < S. 0 ack 1 mss 1460 wscale 7
			guest > . 1 ack 1
			+1m
			backend silent
		`},
		{"a guest that never completes is given up, both sides told", setup{}, `
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			host accepts
			+1s
			backend < S. 0 ack 1 mss 1460
			+2s
			backend < S. 0 ack 1 mss 1460
			+4s
			backend < S. 0 ack 1 mss 1460
			+5m
			backend < S. 0 ack 1 mss 1460
			backend < S. 0 ack 1 mss 1460
			backend < S. 0 ack 1 mss 1460
			backend < S. 0 ack 1 mss 1460
			backend < R. 1 ack 1
			host reads reset
			flows 0
		`},
		{"a new SYN while the SYN-ACK is out is challenged, its RST believed", setup{}, `
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			guest > S 5000 mss 1460
			backend < . 1 ack 1
			guest > R 1
			flows 0
			guest > S 5000 mss 1460
			backend < S. 0 ack 5001 mss 1460
		`},
		{"handshake, then RST: nothing stays", setup{}, `
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			guest > R 1
			flows 0
			host accepts
			host reads reset
			guest > S 10 mss 1460
			backend < S. 0 ack 11 mss 1460
			guest > R. 11 ack 1
			flows 0
		`},
		{"an ACK of something else is answered by RST", setup{}, `
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			guest > . 1 ack 2
			backend < R 2
			flows 1
		`},
	})
}

func TestConnectFails(t *testing.T) {
	runAll(t, []scenario{
		{"refused is RST, never SYN-ACK", setup{}, `
			host stops listening
			guest > S 0 mss 1460
			backend < R. 0 ack 1
			flows 0
		`},
		{"over IPv6", setup{v6: true}, `
			host stops listening
			guest > S 0 mss 1440
			backend < R. 0 ack 1
			flows 0
		`},
		{"a table that is full refuses, and leaves the others alone", setup{maxFlows: 1}, `
			guest opens mss 1460
			guest:2 > S 0 mss 1460
			backend:2 < R. 0 ack 1
			guest > . 1:101 ack 1
			host reads 100
			flows 1
		`},
		{"pending connects are bounded, more is silence", setup{maxConnect: 1}, `
			guest > S 0 mss 1460 more
			guest:2 > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			backend silent
			guest:2 > S 0 mss 1460
			backend:2 < S. 0 ack 1 mss 1460
		`},
	})
}

// connectErrors are reported by the host's kernel in ways that a loopback cannot
// show, so they are told to the handler.
func TestConnectErrorsByKind(t *testing.T) {
	for _, tc := range []struct {
		name  string
		errno hostErrno
		v6    bool
		want  string
	}{
		{"no route to host", ehostunreach, false, "icmp host"},
		{"network unreachable", enetunreach, false, "icmp net"},
		{"a route into a black hole", einval, false, "icmp net"},
		{"a family that the host has not", eafnosupport, true, "icmp net"},
		{"prohibited", eacces, false, "icmp prohibited"},
		{"prohibited by a filter", eperm, false, "icmp prohibited"},
		{"no route to host, IPv6", ehostunreach, true, "icmp host"},
		{"network unreachable, IPv6", enetunreach, true, "icmp net"},
		{"prohibited, IPv6", eacces, true, "icmp prohibited"},
		{"refused", econnrefused, false, "R. 0 ack 1"},
		{"timeout is silence", etimedout, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := newScript(t, setup{v6: tc.v6})
			x.guest(1)
			k := x.key(1)
			x.h.tellConnectError(k, guestISN+2, tc.errno)
			x.q.Flush()
			if tc.want == "" {
				x.step("backend silent")
			} else {
				x.step("backend < " + tc.want)
			}
		})
	}
}

func TestTimeoutWhileConnecting(t *testing.T) {
	x := newScript(t, setup{})
	// The host's connect goes nowhere: the flow is made by hand, with a socket
	// that was never connected.
	k := x.key(1)
	i, f := x.h.add(&k)
	f.fd = int32(openSocket(t))
	x.h.nowConnecting(i, f)
	f.rcvNxt = x.guest(1).isn + 1
	x.step("+1m")
	x.step("guest > S 0 mss 1460")
	x.step("backend silent")
	x.step("guest > S 77 mss 1460 wscale 3") // the guest begins anew
	if f.rcvNxt != x.guest(1).isn+78 || f.sndShift != 3 {
		t.Errorf("a new SYN was not taken over")
	}
	x.step("flows 1")
	x.h.connectFailed(i, f, etimedout)
	x.step("backend silent")
	x.step("flows 0")
	if len(x.h.pending) != 0 {
		t.Errorf("%d connecting", len(x.h.pending))
	}
}

// TestBlackHoles: destinations that never answer fill the bound. A live one is
// served at once all the same, and the bound holds.
func TestBlackHoles(t *testing.T) {
	const bound = 200
	x := newScript(t, setup{maxConnect: bound})
	for n := range uint16(bound) {
		k := x.key(1)
		k.RemotePort = 20000 + n
		i, f := x.h.add(&k)
		f.fd = int32(openSocket(t)) // never connected
		x.h.nowConnecting(i, f)
	}
	x.step("guest > S 0 mss 1460") // these may be about to answer
	x.step("backend silent")
	x.step("+1s")
	for n := range 5 {
		x.step(fmt.Sprintf("guest:%d > S 0 mss 1460", n+1))
		x.step(fmt.Sprintf("backend:%d < S. 0 ack 1 mss 1460", n+1))
		x.step(fmt.Sprintf("guest:%d > . 1 ack 1", n+1))
		x.step(fmt.Sprintf("host:%d accepts", n+1))
	}
	if n := len(x.h.pending); n != bound-1 { // the five came one after the other
		t.Errorf("%d connects are under way, want %d", n, bound-1)
	}
	if n := x.h.Counters.Limited; n != 2 {
		t.Errorf("%d were limited, want 2", n)
	}
}

// TestProbes: attempts that end with the handshake leave nothing behind.
func TestProbes(t *testing.T) {
	x := newScript(t, setup{})
	start := openFiles(t)
	for range 50 {
		x.step("guest > S 0 mss 1460")
		x.step("backend < S. 0 ack 1 mss 1460")
		x.step("guest > R 1")
		x.step("flows 0")
	}
	x.hostAcceptsAll()
	if n := openFiles(t) - 50; n > start { // the server's own
		t.Errorf("%d descriptors, %d at the start", n, start)
	}
	x.step("guest:2 opens mss 1460")
}

// TestLargestWindow: 1 GiB, which is 65535 with a scale of 14; a larger scale
// means 14 (RFC 7323 section 2.3).
func TestLargestWindow(t *testing.T) {
	for _, tc := range []struct{ scale, shift int }{{14, 14}, {15, 14}} {
		x := newScript(t, setup{})
		x.step(fmt.Sprintf("guest > S 0 win 65535 mss 1460 wscale %d", tc.scale))
		x.step("backend < S. 0 ack 1 mss 1460 wscale 7")
		x.step(fmt.Sprintf("guest > . 1 ack 1 win %d", 65535<<tc.scale))
		if f := x.h.flows.at(0); f.sndWnd != 65535<<tc.shift {
			t.Errorf("scale %d: window of %d bytes, want %d", tc.scale, f.sndWnd, 65535<<tc.shift)
		}
		x.step("host accepts")
		x.step("host writes 100000")
		x.step("guest takes 100000")
	}
}
