package tcp

import (
	"fmt"
	"testing"
)

// TestAcknowledgementCountsAnywhere: what a segment acknowledges counts, also where
// its data was taken before, comes too early or lies outside of the window.
func TestAcknowledgementCountsAnywhere(t *testing.T) {
	for _, tc := range []struct{ name, segment, answer string }{
		{"a repetition", "guest > . 1:101 ack 1001", "backend < . 1001 ack 101"},
		{"before its turn", "guest > . 501:601 ack 1001", "backend < . 1001 ack 101"},
		{"behind the window", "guest > . 100000:100100 ack 1001", "backend < . 1001 ack 101"},
		{"nothing, behind what is expected", "guest > . 501 ack 1001", "backend silent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runScript(t, setup{}, `
				guest opens mss 1000 wscale 7
				guest > P. 1:101 ack 1
				host reads 100
				host writes 1000
				backend < P. 1:1001 ack 101
				`+tc.segment+`
				`+tc.answer+`
				+10m                            # nothing is sent again
				backend silent
			`)
		})
	}
}

// TestSimultaneousOpen is not supported: a SYN of the guest does not answer ours.
func TestSimultaneousOpen(t *testing.T) {
	runScript(t, setup{}, `
		host connects
		backend < S 0 mss 1460 wscale 7
		guest > S 0 mss 1460
		backend silent
		flows 1
		guest > S. 0 ack 1 mss 1460
		backend < . 1 ack 1
		host writes 100
		backend < P. 1:101 ack 1
	`)
}

// TestOptionsOfOthers: what is unknown to us is accepted and not given back: time
// stamps, fast open, multipath, user timeout, what was never assigned, and rubbish.
func TestOptionsOfOthers(t *testing.T) {
	for name, opts := range map[string]string{
		"time stamps":          "0101080a0000000100000000",
		"fast open":            "2202" + "0101",
		"multipath":            "1e0c0081" + "0102030405060708",
		"user timeout":         "1c040001",
		"never assigned":       "fa04dead",
		"shorter than its own": "fa000000",
		"longer than there is": "010103fa",
	} {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, IPv6 %v", name, v6), func(t *testing.T) {
				mss := map[bool]string{false: "mss 1460", true: "mss 1440"}[v6]
				runScript(t, setup{v6: v6}, `
					guest > S 0 `+mss+` opts `+opts+`
					backend < S. 0 ack 1 `+mss+`
					guest > P. 1:101 ack 1 opts `+opts+`
					host accepts
					host reads 100
					host writes 50
					backend < P. 1:51 ack 101
					guest > F. 101 ack 51 opts `+opts+`
					host reads end
				`)
			})
		}
	}
}

// TestIdleProbes: when a guest that is silent is asked, how often, and when it is
// given up.
func TestIdleProbes(t *testing.T) {
	// Questions are asked a little late, so that those of many flows come together.
	nine := `
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		+75s
		backend < . 0
		backend silent
		flows 1
		+75s
	`
	runAll(t, []scenario{
		{"idle for two hours: nine questions, 75 s apart, then RST", setup{}, `
			guest opens mss 1460 wscale 7
			+2h
			backend silent
			+33s` + nine + `
			backend < R. 1 ack 1
			flows 0
			host reads reset
		`},
		{"the guest has ended its direction: after two minutes", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 1 ack 1
			+40ms
			backend < . 1 ack 2
			+119s
			backend silent
			+34s` + nine + `
			backend < R. 1 ack 2
			flows 0
		`},
		{"the host has ended its direction: after two minutes", setup{}, `
			guest opens mss 1460 wscale 7
			host ends
			backend < F. 1 ack 1
			guest > . 1 ack 2
			+2m
			backend silent
			+33s
			backend < . 1 ack 1
			guest > . 1 ack 2
			+2m
			backend silent
			+33s
			backend < . 1 ack 1
			guest > P. 1:101 ack 2          # it lives
			host reads 100
		`},
		{"an answer begins the count anew", setup{}, `
			guest opens mss 1460 wscale 7
			+2h10m
			backend anything
			flows 1
			guest > . 1 ack 1
			+2h
			backend silent
			+33s` + nine + `
			backend < R. 1 ack 1
			flows 0
		`},
	})
}

// TestGuestOff: nothing counts against a guest that has no ring, neither what it
// did not acknowledge nor that it is silent; and little is done meanwhile.
func TestGuestOff(t *testing.T) {
	runAll(t, []scenario{
		{"data waits", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 500
			backend < P. 1:501
			guest's ring is gone
			host writes 500
			+24h
			flows 1
			guest's ring is new
			backend < . 1:1001
			guest > . 1 ack 1001
			+10m
			backend silent
		`},
		{"idle", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is gone
			+24h
			flows 1
			guest's ring is new
			host writes 500
			backend < P. 1:501
			guest > . 1 ack 501
		`},
		{"half-closed", setup{}, `
			guest opens mss 1000 wscale 7
			guest > F. 1 ack 1
			+40ms
			backend < . 1 ack 2
			guest's ring is gone
			+24h
			flows 1
			guest's ring is new
			host writes 500
			backend < P. 1:501 ack 2
			guest > . 2 ack 501
		`},
		{"SYN-ACK waits", setup{}, `
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			guest's ring is gone
			+24h
			flows 1
			guest's ring is new
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			guest > . 1 ack 1
			host accepts
		`},
		{"the host's connection waits", setup{}, `
			guest's ring is gone
			host connects
			backend silent
			+1h
			flows 1
			guest's ring is new
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
		`},
		{"a ring, but no buffers: idle", setup{}, `
			guest opens mss 1000 wscale 7
			guest:2 opens mss 1000 wscale 7
			guest's ring is empty
			+24h
			flows 2
			guest's ring is full
			backend anything                # a question
			guest > . 1 ack 1
			guest:2 > . 1 ack 1
			host writes 100
			backend < P. 1:101
		`},
		{"a ring, but no buffers, for what was sent already", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 500
			backend < P. 1:501
			guest's ring is empty
			+24h
			flows 1
			guest's ring is full
			backend < P. 1:501
			guest > . 1 ack 501
			+1m
			backend silent
		`},
		{"FIN waits", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is gone
			host ends
			+24h
			flows 1
			guest's ring is new
			backend < F. 1 ack 1
			guest > . 1 ack 2
			backend silent
		`},
	})
}

// TestWindowIsAskedFor: the socket is asked for room when half of what it said last
// is used up, not with every segment and not only when all is.
func TestWindowIsAskedFor(t *testing.T) {
	x := newScript(t, setup{})
	x.step("guest opens mss 1460 wscale 7")
	g, f := x.guest(1), x.h.flows.at(0)
	for round := range 3 {
		edge, span := g.told, f.rcvSpan
		asked := -1
		for sent := uint32(0); sent < span && asked < 0; sent += 2920 {
			at := g.sent
			x.step(fmt.Sprintf("guest > . %d:%d ack 1 more", at, at+1460))
			x.step(fmt.Sprintf("guest > . %d:%d ack 1", at+1460, at+2920))
			x.step(fmt.Sprintf("backend < . 1 ack %d", at+2920))
			x.step("host reads 2920")
			if f.rcvSpan != span || int32(g.told-edge) >= 1<<f.rcvShift {
				asked = int(edge - g.sent)
			}
		}
		if half := int(span / 2); asked < half-2*2920 || asked > half {
			t.Errorf("round %d: asked with %d left of a window of %d", round, asked, span)
		}
	}
}

// TestPacketsLeaveTheWheelAlone: a flow's entry in the timer wheel stays where it is
// while segments come and go.
func TestPacketsLeaveTheWheelAlone(t *testing.T) {
	x := newScript(t, setup{})
	x.step("guest opens mss 1460 wscale 7")
	f := x.h.flows.at(0)
	var at int64
	for i := range 30 {
		x.link.NowMs++
		x.step(fmt.Sprintf("guest > P. %d:%d ack %d", 1+100*i, 101+100*i, 1+50*i))
		x.step("host reads 100")
		x.step("host writes 50")
		x.step(fmt.Sprintf("backend < P. %d:%d ack %d", 1+50*i, 51+50*i, 101+100*i))
		if i == 0 {
			at = f.wheelAt
		}
		if f.wheelAt != at || x.h.wheel.Len() != 1 {
			t.Fatalf("exchange %d: entry at %d, was at %d; %d entries", i, f.wheelAt, at, x.h.wheel.Len())
		}
	}
	x.step("guest > . 3001 ack 1501")
}

// TestQueueIsEmptiedBeforeClose: closing a socket with something left in its queue
// would reset a host that has got everything.
func TestQueueIsEmptiedBeforeClose(t *testing.T) {
	runScript(t, setup{}, `
		guest opens mss 1460 wscale 7
		host writes 100
		host ends
		backend < P. 1:101
		backend < F. 101
		guest > P. 1:101 ack 102
		guest > F. 101 ack 102
		backend < . 102 ack 102
		flows 0
		host reads 100
		host reads end
	`)
}

// TestLastAcknowledgementIsRepeated for two seconds, in which a host that has closed
// costs no descriptor.
func TestLastAcknowledgementIsRepeated(t *testing.T) {
	runScript(t, setup{}, `
		guest opens mss 1460 wscale 7
		host closes
		backend < F. 1 ack 1
		guest > F. 1 ack 2
		backend < . 2 ack 2
		+1999ms
		guest > F. 1 ack 2
		backend < . 2 ack 2
		+1ms
		guest > F. 1 ack 2
		backend < R 2
	`)
}
