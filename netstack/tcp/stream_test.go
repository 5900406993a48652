package tcp

import "testing"

func TestDataFromGuest(t *testing.T) {
	runAll(t, []scenario{
		{"two segments are acknowledged at once, one after a delay", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1:1461 ack 1 more
			guest > . 1461:2921 ack 1
			backend < . 1 ack 2921
			guest > . 2921:3021 ack 1
			backend silent
			+39ms
			backend silent
			+1ms
			backend < . 1 ack 3021
			host reads 3020
		`},
		{"an answer carries the acknowledgement", setup{}, `
			guest opens mss 1460 wscale 7
			guest > P. 1:101 ack 1
			host reads 100
			host writes 50
			backend < P. 1:51 ack 101
			+100ms
			backend silent
			guest > . 101 ack 51
			backend silent
		`},
		{"out of order is answered at once, nothing is taken", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1:101 ack 1 more
			guest > . 201:301 ack 1
			backend < . 1 ack 101
			guest > . 301:401 ack 1
			backend < . 1 ack 101
			guest > . 101:301 ack 1
			+40ms
			backend < . 1 ack 301
			host reads 300
		`},
		{"an ACK without data that is ahead is not answered", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 201 ack 1
			backend silent
		`},
		{"repeated and overlapping data", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1:101 ack 1
			+40ms
			backend < . 1 ack 101
			guest > . 1:101 ack 1
			backend < . 1 ack 101
			guest > . 51:151 ack 1
			+40ms
			backend < . 1 ack 151
			host reads 150
		`},
		{"keepalive probe from the guest is answered", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1:2 ack 1
			+40ms
			backend < . 1 ack 2
			guest > . 1 ack 1
			backend < . 1 ack 2
			guest > . 1:2 ack 1
			backend < . 1 ack 2
		`},
		{"data behind the window is not taken, and answered", setup{}, `
			guest opens mss 1460
			guest > . 70001:70101 ack 1
			backend < . 1 ack 1 win 65535
			guest > . 1:65600 ack 1    # the last 64 bytes are outside
			backend < . 1 ack 65536
			host reads 65535
		`},
		{"an acknowledgement of what was never sent", setup{}, `
			guest opens mss 1460 wscale 7
			guest > . 1:101 ack 2
			backend < . 1 ack 1
			guest > . 1:101 ack 1
			host reads 100
			+40ms
			backend < . 1 ack 101
		`},
		{"a segment without ACK is dropped", setup{}, `
			guest opens mss 1460 wscale 7
			guest > P 1:101
			backend silent
		`},
	})
}

func TestDataToGuest(t *testing.T) {
	tso := setup{features: allOffloads}
	runAll(t, []scenario{
		{"as many bytes as the window takes", setup{}, `
			guest opens mss 1000
			guest > . 1 ack 1 win 2500
			host writes 10000
			backend < . 1:1001 ack 1
			backend < . 1001:2001 ack 1
			backend silent                  # 500 are no segment, nor half of the largest window
			guest > . 1 ack 1001 win 2500
			backend < . 2001:3001
			backend silent
			guest > . 1 ack 3001 win 2500
			backend < . 3001:4001
			backend < . 4001:5001
			backend silent
		`},
		{"one frame of many segments", tso, `
			guest opens mss 1460 wscale 7
			host writes 14600
			backend < . 1:14601 ack 1 gso 1460 partial
			guest > . 1 ack 14601
			host writes 1460
			backend < P. 14601:16061 gso 0 partial
		`},
		{"one frame of many segments, IPv6", setup{features: allOffloads, v6: true}, `
			guest opens mss 1440 wscale 7
			host writes 14400
			backend < . 1:14401 ack 1 gso 1440 partial
		`},
		{"full checksums for a guest that makes none", setup{}, `
			guest opens mss 1460 wscale 7
			host writes 2000
			backend < . 1:1461 full
			backend < P. 1461:2001 full
			host closes
			backend < F. 2001 full
			guest > R 1
		`},
		{"no large frames without the feature", setup{features: csumOnly}, `
			guest opens mss 1460 wscale 7
			host writes 2000
			backend < . 1:1461 partial gso 0
			backend < . 1461:2001 partial gso 0
		`},
		{"no large frames without checksum offload", setup{features: tsoOnly}, `
			guest opens mss 1460 wscale 7
			host writes 2000
			backend < . 1:1461 full gso 0
			backend < . 1461:2001 full gso 0
		`},
		{"no frame larger than the guest's buffers", setup{features: allOffloads, notMergeable: true, bufferBytes: 1526}, `
			guest opens mss 1460 wscale 7
			host writes 4000
			backend < . 1:1461 gso 0
			backend < . 1461:2921 gso 0
			backend < . 2921:4001 gso 0
		`},
		{"buffers smaller than a segment", setup{features: allOffloads, notMergeable: true, bufferBytes: 600}, `
			guest opens mss 1460 wscale 7
			host writes 1068
			backend < . 1:535 gso 0         # 600 less 12, 14, 20 and 20
			backend < . 535:1069 gso 0
		`},
		{"buffers of 32 bytes", setup{features: allOffloads, bufferBytes: 32, buffers: 1000}, `
			guest opens mss 1460 wscale 7
			host writes 14600
			backend < data 1:14601
		`},
		{"a window of less than two segments is used by halves", setup{mtu: 65520, features: csumOnly, bufferBytes: 65536, buffers: 16}, `
			guest opens mss 65480 win 65535
			host writes 100000
			backend < . 1:16385             # more is not expected before it was tried
			backend < . 16385:49152
			backend silent
			guest > . 1 ack 49152
			backend < . 49152:81919
			backend < . 81919:100001
		`},
	})
}

func TestEveryMTU(t *testing.T) {
	for _, mtu := range []int{65520, 65519, 64499, 9000, 1500, 1280, 576, 68} {
		for _, features := range []uint64{0, csumOnly, allOffloads} {
			runScript(t, setup{mtu: mtu, features: features, bufferBytes: 4096, buffers: 512}, `
				guest opens mss 65495 wscale 7 win 65535
				host writes 65000
				guest takes 65000
				guest > . 1:65001 ack 65001
				host reads 65000
				backend anything
			`)
		}
	}
}

func TestLossTowardsGuest(t *testing.T) {
	runAll(t, []scenario{
		{"third duplicate ACK sends again, first and second do not", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 4000
			backend < data 1:4001
			guest > . 1 ack 1
			backend silent
			guest > . 1 ack 1
			backend silent
			guest > . 1 ack 1
			backend < data 1:4001
			guest > . 1 ack 1
			backend silent
			guest > . 1 ack 4001
			+10m
			backend silent
		`},
		{"duplicates that answer what was sent twice mean nothing", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 4000
			backend < data 1:4001
			guest > . 1 ack 1
			guest > . 1 ack 1
			guest > . 1 ack 1
			backend < data 1:4001
			guest > . 1 ack 4001
			host writes 3000
			backend < data 4001:7001
			guest > . 1 ack 4001
			guest > . 1 ack 4001
			guest > . 1 ack 4001
			guest > . 1 ack 4001
			backend silent
			guest > . 1 ack 7001
			host writes 3000
			backend < data 7001:10001
			guest > . 1 ack 7001
			guest > . 1 ack 7001
			guest > . 1 ack 7001
			backend < data 7001:10001
		`},
		{"what is not a duplicate: data, or another window", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 2000
			backend < data 1:2001
			guest > . 1:11 ack 1
			guest > . 11:21 ack 1
			guest > . 21:31 ack 1
			guest > . 31 ack 1 win 66560
			guest > . 31 ack 1 win 67584
			guest > . 31 ack 1 win 68608
			backend silent
		`},
		{"RTO of 200 ms or more, doubling, until acknowledged", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 100
			backend < P. 1:101
			+199ms
			backend silent
			+1ms
			backend < P. 1:101
			+399ms
			backend silent
			+1ms
			backend < P. 1:101
			+799ms
			backend silent
			+1ms
			backend < P. 1:101
			guest > . 1 ack 101
			+10m
			backend silent
		`},
		{"RTO is measured", setup{}, `
			guest > S 0 win 65535 mss 1000 wscale 7
			backend < S. 0 ack 1 mss 1460 wscale 7
			+300ms
			guest > . 1 ack 1
			host accepts
			host writes 100
			backend < P. 1:101
			+899ms                          # 300 + 4 x 150
			backend silent
			+1ms
			backend < P. 1:101
		`},
		{"a repeated segment is not measured (Karn)", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 100
			backend < P. 1:101
			+200ms
			backend < P. 1:101
			+390ms
			guest > . 1 ack 101
			host writes 100
			backend < P. 101:201
			+199ms
			backend silent
			+1ms
			backend < P. 101:201
		`},
		{"after a back-off the timer is the measured one again", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 2000
			backend < data 1:2001
			+200ms
			backend < . 1:1001
			+400ms
			backend < . 1:1001
			+800ms
			backend < . 1:1001
			guest > . 1 ack 1001
			backend < . 1001:2001
			backend silent
			+199ms
			backend silent
			+1ms
			backend < . 1001:2001
		`},
		{"a guest that never answers is given up", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 100
			backend < P. 1:101
			+7m
			backend anything
			flows 1
			+5m
			backend anything
			flows 0
			host reads reset
		`},
		{"a lost FIN is sent again", setup{}, `
			guest opens mss 1000 wscale 7
			host closes
			backend < F. 1 ack 1
			+200ms
			backend < F. 1 ack 1
			+400ms
			backend < F. 1 ack 1
			+800ms
			backend < F. 1 ack 1
			guest > . 1 ack 2
			+1m
			backend silent
			guest > F. 1 ack 2
			backend < . 2 ack 2
			flows 0
		`},
		{"a lost FIN behind lost data", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 1500
			backend < data 1:1501
			host closes
			backend < F. 1501 ack 1
			+200ms
			backend < . 1:1001
			guest > . 1 ack 1001
			backend < . 1001:1501
			backend < F. 1501 ack 1
			+200ms
			backend < . 1001:1501
			guest > . 1 ack 1501
			backend < F. 1501
			guest > F. 1 ack 1502
			backend < . 1502 ack 2
			flows 0
		`},
	})
}

func TestZeroWindow(t *testing.T) {
	runAll(t, []scenario{
		{"probes never stop while the guest answers", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 500
			backend < P. 1:501
			guest > . 1 ack 501 win 0
			host writes 500
			backend silent
			+200ms
			backend < . 501:502
			guest > . 1 ack 501 win 0
			+400ms
			backend < . 501:502
			guest > . 1 ack 501 win 0
			+800ms
			backend < . 501:502
			guest > . 1 ack 501 win 0
			+10m
			backend anything
			guest > . 1 ack 501 win 0
			+10m
			backend anything
			guest > . 1 ack 501 win 0
			flows 1
			+1m
			backend < . 501:502
			guest > . 1 ack 501 win 0
			guest > . 1 ack 501 win 65536
			backend < P. 501:1001
			+199ms
			backend silent
			+1ms
			backend < P. 501:1001
		`},
		{"the window opens, all comes at once, from where the guest is", setup{}, `
			guest opens mss 1000 wscale 7
			guest > . 1 ack 1 win 0
			host writes 3000
			backend silent
			+200ms
			backend < . 1:2
			+400ms
			backend < . 1:2
			guest > . 1 ack 1 win 65536
			backend < data 1:3001
		`},
		{"the probe's byte is taken", setup{}, `
			guest opens mss 1000 wscale 7
			guest > . 1 ack 1 win 0
			host writes 3000
			+200ms
			backend < . 1:2
			guest > . 1 ack 2 win 65536
			backend < data 2:3001
		`},
		{"the window closes behind the last byte and its opening is lost", setup{}, `
			guest opens mss 1000 win 1000
			host writes 3000
			backend < . 1:501               # half of the window at a time
			backend < . 501:1001
			guest > . 1 ack 1001 win 0
			backend silent
			+200ms
			backend < . 1001:1002
			guest > . 1 ack 1001 win 1000
			backend < . 1001:1501
			backend < . 1501:2001
			backend silent
		`},
		{"what waits fits the rest of the window", setup{}, `
			guest opens mss 1000
			guest > . 1 ack 1 win 1600
			host writes 1500
			backend < . 1:1001
			backend < P. 1001:1501
			guest > . 1 ack 1501 win 1600
			host writes 1700
			backend < . 1501:2501
			backend silent
			guest > . 1 ack 2501 win 1600
			backend < P. 2501:3201
		`},
		{"a window that shrinks", setup{}, `
			guest opens mss 1000 win 5000
			host writes 5000
			backend < data 1:5001
			guest > . 1 ack 1001 win 0
			+200ms
			backend < . 1001:1002
			guest > . 1 ack 1001 win 2000
			backend < data 1001:3001
			backend silent
			guest > . 1 ack 3001 win 2000
			backend < data 3001:5001
		`},
		{"an old segment does not change the window", setup{}, `
			guest opens mss 1000 wscale 7
			guest > . 1:101 ack 1 win 65536
			guest > . 101:201 ack 1 win 65536
			+40ms
			backend < . 1 ack 201
			guest > . 1:101 ack 1 win 0
			backend < . 1 ack 201
			host writes 100
			backend < P. 1:101
		`},
		{"a silent guest with a closed window is given up in the end", setup{}, `
			guest opens mss 1000 wscale 7
			guest > . 1 ack 1 win 0
			host writes 3000
			+10m
			backend anything
			flows 1
			+30m
			backend anything
			flows 0
			host reads reset
		`},
	})
}
