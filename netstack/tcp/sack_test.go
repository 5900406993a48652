package tcp

import (
	"math/rand/v2"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

func TestSelectiveAcknowledgement(t *testing.T) {
	runAll(t, []scenario{
		{"offered if the guest offers", setup{}, `
			guest > S 0 mss 1460 sackok
			backend < S. 0 ack 1 mss 1460 sackok
			guest:2 > S 0 mss 1460 sackok wscale 7
			backend:2 < S. 0 ack 1 mss 1460 sackok wscale 7
		`},
		{"offered to the guest", setup{}, `
			host connects
			backend < S 0 mss 1460 wscale 7 sackok
		`},
		{"only what is missing is sent again", setup{}, `
			guest opens mss 1000 wscale 7 sackok
			host writes 8000
			backend < data 1:8001
			guest > . 1 ack 1 sack 1001:2001
			guest > . 1 ack 1 sack 1001:3001
			backend silent
			guest > . 1 ack 1 sack 4001:5001,1001:3001
			backend < . 1:1001
			backend < . 3001:4001
			backend silent                       # what is behind may be on its way
			guest > . 1 ack 1 sack 6001:7001,4001:5001,1001:3001
			backend < . 5001:6001
			backend silent
			guest > . 1 ack 3001 sack 4001:5001,6001:8001
			guest > . 1 ack 5001 sack 6001:8001
			backend silent
			guest > . 1 ack 8001
			host writes 1000
			backend < P. 8001:9001
			guest > . 1 ack 9001
			+1m
			backend silent
		`},
		{"new data goes on behind what is sent again", setup{}, `
			guest opens mss 1000 wscale 7 sackok
			host writes 4000
			backend < data 1:4001
			guest > . 1 ack 1 sack 1001:4001
			backend < . 1:1001
			host writes 1000
			backend < P. 4001:5001
			guest > . 1 ack 5001
			+1m
			backend silent
		`},
		{"one large duplicate says as much as three", setup{features: allOffloads}, `
			guest opens mss 1000 wscale 7 sackok
			host writes 10000
			backend < . 1:10001
			host writes 10000
			backend < . 10001:20001
			guest > . 1 ack 1 sack 10001:20001
			backend < . 1:10001 gso 1000
		`},
		{"the timer does not believe what the guest held", setup{}, `
			guest opens mss 1000 wscale 7 sackok
			host writes 3000
			backend < data 1:3001
			guest > . 1 ack 1 sack 1001:2001
			backend silent
			+200ms
			backend < . 1:1001              # one segment, until the guest answers
			backend silent
			guest > . 1 ack 1001
			backend < data 1001:3001
			guest > . 1 ack 3001
		`},
		{"what is sent again is lost again", setup{}, `
			guest opens mss 1000 wscale 7 sackok
			host writes 5000
			backend < data 1:5001
			guest > . 1 ack 1 sack 1001:5001
			backend < . 1:1001
			guest > . 1 ack 1 sack 1001:5001
			guest > . 1 ack 1 sack 1001:5001
			backend silent
			+200ms
			backend < . 1:1001
			guest > . 1 ack 1001
			backend < data 1001:5001
			guest > . 1 ack 5001
		`},
		{"nonsense", setup{}, `
			guest opens mss 1000 wscale 7 sackok
			host writes 3000
			backend < data 1:3001
			guest > . 1 ack 1 sack 5001:9001     # never sent
			guest > . 1 ack 1 sack 2001:1001
			guest > . 1 ack 1001 sack 1:1001     # received twice
			backend silent
			guest > . 1 ack 3001
		`},
		{"FIN is missing behind what is held", setup{}, `
			guest opens mss 1000 wscale 7 sackok
			host writes 4000
			host ends
			backend < data 1:4001
			backend < F. 4001
			guest > . 1 ack 1 sack 1001:4001
			backend < . 1:1001
			guest > . 1 ack 4001
			+200ms
			backend < F. 4001
			guest > F. 1 ack 4002
			backend < . 4002 ack 2
		`},
		{"without it, nothing is believed", setup{}, `
			guest opens mss 1000 wscale 7
			host writes 4000
			backend < data 1:4001
			guest > . 1 ack 1 sack 1001:4001
			backend silent
		`},
	})
}

// TestScoreboard compares it with a map of bytes.
func TestScoreboard(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const base, span = 0xffffffe0, 64 // around the end of sequence space
	for range 2000 {
		var b scoreboard
		var held [span]bool
		una := 0
		for range 12 {
			if rng.IntN(4) == 0 {
				una += rng.IntN(span - una)
				b.acked(base + uint32(una))
			} else {
				from := una + rng.IntN(span-una)
				to := from + 1 + rng.IntN(min(8, span-from))
				b.add(header.SACKBlock{Left: base + uint32(from), Right: base + uint32(to)})
				for i := from; i < to; i++ {
					held[i] = true
				}
			}
			checkScoreboard(t, &b, base, held[:], una)
		}
	}
}

func checkScoreboard(t *testing.T, b *scoreboard, base uint32, held []bool, una int) {
	t.Helper()
	sum := uint32(0)
	for i, r := range b.held[:b.n] {
		if !before(r.Left, r.Right) || i > 0 && !before(b.held[i-1].Right, r.Left) {
			t.Fatalf("ranges %v", b.held[:b.n])
		}
		for s := r.Left; s != r.Right; s++ {
			if j := s - base; int(j) < una || !held[j] {
				t.Fatalf("byte %d is not held: %v", j, b.held[:b.n])
			}
		}
		sum += r.Right - r.Left
	}
	if b.bytes() != sum {
		t.Fatalf("%d bytes of %v", b.bytes(), b.held[:b.n])
	}
	// What is missing and what is held make up all of it.
	for seq := base + uint32(una); b.n > 0 && before(seq, b.end()); {
		at, n := b.missing(seq)
		if n == 0 {
			if at != b.end() {
				t.Fatalf("nothing is missing from %d on, end at %d", seq-base, at-base)
			}
			break
		}
		sum += n
		seq = at + n
	}
	if b.n > 0 && sum != b.end()-base-uint32(una) {
		t.Fatalf("held and missing are %d bytes from %d on: %v", sum, una, b.held[:b.n])
	}
}
