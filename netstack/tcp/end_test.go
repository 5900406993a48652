package tcp

import "testing"

// TestHalfClose: the open direction goes on for as long as it likes.
func TestHalfClose(t *testing.T) {
	runAll(t, []scenario{
		{"guest connects, guest ends first", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 1:101 ack 1
			+40ms
			backend < . 1 ack 102
			host reads 100
			host reads end
			+5s
			host writes 1000
			backend < P. 1:1001 ack 102
			guest > . 102 ack 1001
			+10m                            # asked for, but not cut yet
			backend anything
			guest > . 102 ack 1001
			host writes 1000
			backend < P. 1001:2001
			guest > . 102 ack 2001
			host closes
			backend < F. 2001 ack 102
			guest > . 102 ack 2002
			flows 0
		`},
		{"guest connects, host ends first", setup{}, `
			guest opens mss 1460 wscale 7
			host writes 100
			backend < P. 1:101
			host ends
			backend < F. 101 ack 1
			guest > . 1 ack 102
			+5s
			guest > . 1:1001 ack 102
			host reads 1000
			+40ms
			backend < . 102 ack 1001
			+1m
			guest > F. 1001:1101 ack 102
			backend < . 102 ack 1102
			host reads 100
			host reads end
			flows 0
		`},
		{"our FIN acknowledges the guest's, if it follows soon", setup{}, `
			guest opens mss 1460 wscale 7
			guest > P. 1:101 ack 1
			host reads 100
			host writes 100
			backend < P. 1:101 ack 101
			guest > F. 101 ack 101
			host reads end
			+39ms
			backend silent
			host closes
			backend < F. 101 ack 102
			guest > . 102 ack 102
			flows 0
		`},
		{"host connects, guest ends first", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
			guest > F. 1 ack 1
			+40ms
			backend < . 1 ack 2
			host reads end
			host writes 3000
			backend < data 1:3001
			guest > . 2 ack 3001
			host closes
			backend < F. 3001 ack 2
			guest > . 2 ack 3002
			flows 0
		`},
		{"host connects, host ends first", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7
			host writes 10
			host ends
			guest > S. 0 ack 1 mss 1460 wscale 7
			backend < . 1 ack 1
			backend < P. 1:11 ack 1
			backend < F. 11 ack 1
			guest > . 1 ack 12
			guest > . 1:2001 ack 12
			host reads 2000
			guest > F. 2001 ack 12
			backend < . 12 ack 2002
			host reads end
			flows 0
		`},
		{"both at the same time", setup{}, `
			guest opens mss 1460 wscale 7
			host ends
			backend < F. 1 ack 1
			guest > F. 1 ack 1
			backend < . 2 ack 2
			guest > . 2 ack 2
			backend silent
			host reads end
			flows 0
		`},
	})
}

func TestFIN(t *testing.T) {
	runAll(t, []scenario{
		{"data and FIN in one segment, to the guest after its data", setup{}, `
			guest opens mss 1460 wscale 7
			guest > P. 1:11 ack 1
			host reads 10
			host writes 3000
			host closes
			backend < data 1:3001
			backend < F. 3001 ack 11
			guest > FP. 11 ack 3002
			backend < . 3002 ack 12
			flows 0
		`},
		{"the last ACK is lost: FIN again, ACK again", setup{}, `
			guest opens mss 1460 wscale 7
			host closes
			backend < F. 1 ack 1
			guest > F. 1 ack 2
			backend < . 2 ack 2
			flows 0
			+200ms
			guest > F. 1 ack 2
			backend < . 2 ack 2
			guest > F. 1 ack 2
			backend < . 2 ack 2
			+2s
			guest > F. 1 ack 2
			backend < R 2
		`},
		{"FIN out of order", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 101 ack 1
			backend < . 1 ack 1
			guest > . 1:101 ack 1
			guest > F. 101 ack 1
			+40ms
			backend < . 1 ack 102
			host reads 100
			host reads end
		`},
		{"nothing counts behind a FIN", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 1 ack 1
			+40ms
			backend < . 1 ack 2
			guest > . 2:102 ack 1
			backend < . 1 ack 2
			guest > F. 2 ack 1
			backend < . 1 ack 2
			host reads end
			host writes 10
			backend < P. 1:11 ack 2
		`},
		{"FIN again, because our ACK was lost", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 1:101 ack 1
			+40ms
			backend < . 1 ack 102
			guest > F. 1:101 ack 1
			backend < . 1 ack 102
			host reads 100
			host reads end
		`},
	})
}

// TestAbort: an abort is seen as an abort, never as end of file.
func TestAbort(t *testing.T) {
	runAll(t, []scenario{
		{"guest aborts in mid-transfer", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1:1001 ack 1 more
			guest > R. 1001 ack 1
			backend silent
			host reads 1000
			host reads reset
			flows 0
		`},
		{"host aborts in mid-transfer: RST behind the data", setup{}, `
			guest opens mss 1460 wscale 7
			host writes 1000
			host aborts
			backend < P. 1:1001
			backend < R. 1001 ack 1
			flows 0
		`},
		{"host aborts while it idles", setup{}, `
			guest opens mss 1460 wscale 7
			host aborts
			backend < R. 1 ack 1
			flows 0
		`},
		{"host closes with data unread, which is an abort", setup{}, `
			guest opens mss 1460 wscale 7
			guest > P. 1:101 ack 1
			host closes
			backend < R. 1 ack 101
			flows 0
		`},
		{"host has closed, guest goes on to send", setup{}, `
			guest opens mss 1460 wscale 7
			host closes
			backend < F. 1 ack 1
			guest > . 1 ack 2
			guest > P. 1:101 ack 2
			backend < R. 2 ack 101
			flows 0
		`},
		{"host aborts before the guest's last ACK of the handshake", setup{}, `
			guest > S 0 mss 1460
			backend < S. 0 ack 1 mss 1460
			host accepts
			host aborts
			guest > . 1 ack 1
			backend < R. 1 ack 1
			flows 0
		`},
		{"host aborts behind a window that stays closed", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1 ack 1 win 0
			host writes 1000
			host aborts
			backend silent
			+1s
			backend < R. 1 ack 1
			flows 0
		`},
		{"host aborts, but what it sent fits the windows to come", setup{}, `
			guest opens mss 1000 win 1000
			host writes 2000
			host aborts
			backend < . 1:501
			backend < . 501:1001
			guest > . 1 ack 1001 win 1000
			backend < . 1001:1501
			backend < . 1501:2001
			guest > . 1 ack 2001 win 1000
			backend < R. 2001
			flows 0
		`},
	})
}

// TestResetValidity: RFC 5961 section 3.2.
func TestResetValidity(t *testing.T) {
	runAll(t, []scenario{
		{"in the window, but not exact: challenge", setup{}, `
			guest opens mss 1460 wscale 7
			guest > R 2
			backend < . 1 ack 1
			guest > R 60000
			backend < . 1 ack 1
			flows 1
			guest > R 1
			backend silent
			flows 0
			host reads reset
		`},
		{"outside of the window: nothing", setup{}, `
			guest opens mss 1460 wscale 7
			guest > R 0
			guest > R 70000
			backend silent
			flows 1
		`},
		{"at the edge of the window, where Linux puts it", setup{}, `
			guest opens mss 1460
			guest > R 65536
			backend < . 1 ack 1
			guest > R 1
			flows 0
		`},
		{"SYN on an established connection: challenge", setup{}, `
			guest opens mss 1460 wscale 7
			guest > S 1 mss 1460
			backend < . 1 ack 1
			guest > S 500000 mss 1460
			backend < . 1 ack 1
			flows 1
		`},
		{"the guest has forgotten and answers by RST", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1:101 ack 1
			+40ms
			backend < . 1 ack 101
			host writes 10
			backend < P. 1:11 ack 101
			guest > R 101
			host reads 100
			host reads reset
			flows 0
		`},
	})
}

// TestNoFlow: segments of no flow (RFC 9293 section 3.10.7.1).
func TestNoFlow(t *testing.T) {
	runAll(t, []scenario{
		{"with ACK: RST at its ACK", setup{}, `
			guest > . 1000 ack 5000
			backend < R 5000
			guest > P. 1000:1100 ack 5000
			backend < R 5000
			guest > F. 1000 ack 5000
			backend < R 5000
			guest > S. 1000 ack 5000
			backend < R 5000
		`},
		{"without ACK: RST that acknowledges all of it", setup{}, `
			guest > P 1000:1100
			backend < R. 0 ack 1100
			guest > F 1000
			backend < R. 0 ack 1001
			guest > SF 1000
			backend < R. 0 ack 1002
		`},
		{"RST: nothing", setup{}, `
			guest > R 1000
			guest > R. 1000 ack 1
			backend silent
			flows 0
		`},
	})
}

// TestReuse: the 4-tuple of a connection that is over can be used at once.
func TestReuse(t *testing.T) {
	runAll(t, []scenario{
		{"after the guest closed first", setup{}, `
			guest opens mss 1460 wscale 7
			guest > F. 1 ack 1
			+40ms
			backend < . 1 ack 2
			host closes
			backend < F. 1 ack 2
			guest > . 2 ack 2
			flows 0
			guest > S 100 mss 1460
			backend < S. 0 ack 101 mss 1460
			guest > . 101 ack 1
			host accepts
			flows 1
		`},
		{"after the host closed first, in our TIME-WAIT", setup{}, `
			guest opens mss 1460 wscale 7
			host closes
			backend < F. 1 ack 1
			guest > F. 1 ack 2
			backend < . 2 ack 2
			guest > S 100 mss 1460
			backend < S. 0 ack 101 mss 1460
			guest > . 101 ack 1
			host accepts
			flows 1
		`},
		{"RST ends our TIME-WAIT", setup{}, `
			guest opens mss 1460 wscale 7
			host closes
			backend < F. 1 ack 1
			guest > F. 1 ack 2
			backend < . 2 ack 2
			guest > R 2
			guest > F. 1 ack 2
			backend < R 2
		`},
	})
}
