package tcp

import "testing"

// TestInboundWhileBooting: connections to the guest are tried until it is
// up.
func TestInboundWhileBooting(t *testing.T) {
	runAll(t, []scenario{
		{"guest answers", setup{}, `
			host connects
			backend < S 0 win 65535 mss 1460 wscale 7
			guest > S. 0 ack 1 win 65535 mss 1460 wscale 7
			backend < . 1 ack 1
			host writes 10
			backend < P. 1:11 ack 1
			guest > P. 1:11 ack 11
			host reads 10
		`},
		{"guest without window scale", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 win 1000 mss 1460
			backend < . 1 ack 1 win 8388480   # the scale is 0: the test reads it with 7
			host writes 2000
			backend < . 1:501
			backend < . 501:1001
		`},
		{"d: refused by the guest is refused at once", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			guest > R. 0 ack 1
			host reads reset
			flows 0
		`},
		{"RST that does not answer our SYN is ignored", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			guest > R 0
			guest > R. 0 ack 5
			backend silent
			flows 1
		`},
		{"a: the guest's address is not known", setup{noGuest: true}, `
			host connects
			backend silent
			+3s
			backend silent
			guest appears
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
		`},
		{"c: the guest answers after 20 s", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			+1s
			backend < S 0 mss 1460 wscale 7
			+2s
			backend < S 0 mss 1460 wscale 7
			+4s
			backend < S 0 mss 1460 wscale 7
			+8s
			backend < S 0 mss 1460 wscale 7
			+8s
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
			+5m
			backend silent
		`},
		{"the client gives up first", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			host aborts
			flows 0
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < R 1
		`},
		{"the guest holds an old connection of that name", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			guest > . 700 ack 900
			backend < R 900
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
		`},
		{"what came before the guest answered is delivered", setup{}, `
			host connects
			host writes 3000
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
			backend < data 1:3001
		`},
		{"over IPv6", setup{v6: true}, `
			host connects
			backend < S 0 mss 1440 wscale 7
			guest > S. 0 ack 1 mss 1440 wscale 7
			backend < . 1 ack 1
			host writes 100
			backend < P. 1:101
		`},
		{"a guest that never answers", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			+10m
			backend anything
			flows 0
			host reads reset
		`},
	})
}

// TestIdle: RFC 5382 REQ-5. Nothing is cut before 2 h 4 min.
func TestIdle(t *testing.T) {
	runAll(t, []scenario{
		{"not cut, and asked for after two hours", setup{}, `
			guest opens mss 1460 wscale 7
			+1h59m
			backend silent
			+2m
			backend < . 0 ack 1
			guest > . 1 ack 1
			+1h59m
			backend silent
			guest > . 1:11 ack 1
			host reads 10
			host writes 10
			backend < P. 1:11 ack 11
		`},
		{"a guest that is gone is not kept, but 2 h 4 min it is", setup{}, `
			guest opens mss 1460 wscale 7
			+2h4m
			flows 1
			backend anything
			+20m
			backend anything
			flows 0
			host reads reset
		`},
		{"a guest that has forgotten answers by RST", setup{}, `
			guest opens mss 1460 wscale 7
			+2h1m
			backend < . 0 ack 1
			guest > R 1
			flows 0
			host reads reset
		`},
		{"half-closed and gone, found within minutes but not before 4", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 1 ack 1
			+40ms
			backend < . 1 ack 2
			+4m
			flows 1
			backend anything
			+15m
			backend anything
			flows 0
			host reads end
		`},
		{"half-closed, and the guest has forgotten", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 1 ack 1
			+40ms
			backend < . 1 ack 2
			+3m
			backend < . 0 ack 2
			guest > R 2
			flows 0
		`},
	})
}

// TestStarvedRing: flags and data wait for buffers and keep their order.
func TestStarvedRing(t *testing.T) {
	runAll(t, []scenario{
		{"FIN behind data", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is empty
			host writes 2500
			host closes
			backend silent
			guest's ring gets 1
			backend < . 1:1001
			backend silent
			guest's ring is full
			backend < data 1001:2501
			backend < F. 2501
		`},
		{"RST behind data", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is empty
			host writes 2500
			host aborts
			backend silent
			guest's ring is full
			backend < data 1:2501
			backend < R. 2501
			flows 0
		`},
		{"FIN alone", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is empty
			host closes
			backend silent
			guest's ring is full
			backend < F. 1
		`},
		{"RST alone", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is empty
			host aborts
			backend silent
			guest's ring is full
			backend < R. 1
			flows 0
		`},
		{"SYN-ACK", setup{}, `
			guest's ring is empty
			guest > S 0 mss 1460
			host accepts
			backend silent
			guest's ring is full
			backend < S. 0 ack 1 mss 1460
			guest > . 1 ack 1
		`},
		{"acknowledgement of data, RST for no flow", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is empty
			guest > . 1:2001 ack 1
			guest:2 > . 1 ack 77
			host reads 2000
			backend silent
			guest's ring is full
			backend < . 1 ack 2001
			backend:2 < R 77
		`},
		{"a long starvation does not end the flow", setup{}, `
			guest opens mss 1000 wscale 7
			guest's ring is empty
			host writes 1000
			+1h
			flows 1
			guest's ring is full
			backend < P. 1:1001
		`},
	})
}

// TestWithoutPeekOffset: kernels before 6.9. The rest of the scripts hold there as
// well; these are those in which it matters where a peek begins.
func TestWithoutPeekOffset(t *testing.T) {
	old := setup{noPeekOffset: true}
	runAll(t, []scenario{
		{"data, more data, FIN while nothing is acknowledged", old, `
			guest opens mss 1000 wscale 7
			host writes 2500
			backend < data 1:2501
			host writes 1500
			backend < data 2501:4001
			host closes
			backend < F. 4001
			guest > . 1 ack 4002
			guest > F. 1 ack 4002
			backend < . 4002 ack 2
			flows 0
		`},
		{"loss", old, `
			guest opens mss 1000 wscale 7
			host writes 3000
			backend < data 1:3001
			guest > . 1 ack 1001
			+200ms
			backend < . 1001:2001
			guest > . 1 ack 2001
			backend < . 2001:3001
		`},
		{"abort while nothing is acknowledged", old, `
			guest opens mss 1000 wscale 7
			host writes 2500
			host aborts
			backend < data 1:2501
			backend < R. 2501
			flows 0
		`},
		{"inbound", old, `
			host connects
			host writes 3000
			host ends
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
			backend < data 1:3001
			backend < F. 3001
		`},
		{"window probes", old, `
			guest opens mss 1000 wscale 7
			host writes 500
			backend < P. 1:501
			guest > . 1 ack 501 win 0
			host writes 500
			+200ms
			backend < . 501:502
			guest > . 1 ack 501 win 65536
			backend < P. 501:1001
		`},
	})
}

// TestAcksStayInTheWindow: a segment that begins beyond the guest's window is
// dropped by it with the acknowledgement that it carries (RFC 9293 section
// 3.10.7.4, first check), so that the guest's own data would stall while its window
// is shut.
func TestAcksStayInTheWindow(t *testing.T) {
	runAll(t, []scenario{
		{"after a probe", setup{}, `
			guest opens mss 1000
			guest > . 1 ack 1 win 0
			host writes 1000
			backend silent
			+300ms
			backend < . 1:2
			guest > . 1:2001 ack 1 win 0
			backend < . 1 ack 2001
			host reads 2000
		`},
		{"after the guest has shut its window on what was sent", setup{}, `
			guest opens mss 1000
			host writes 3000
			backend < data 1:3001
			guest > . 1:2001 ack 1001 win 0
			backend < . 1001 ack 2001
			host reads 2000
		`},
	})
}
