package tcp

import (
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// TestEarlySegments: what comes before its turn is kept and reported, and fills
// the stream when the gap is closed (RFC 2018 section 4, RFC 5681 section 4.2).
func TestEarlySegments(t *testing.T) {
	runAll(t, []scenario{
		{"kept, reported, joined", setup{}, `
			guest opens mss 1460 sackok
			guest > . 1001:2001 ack 1
			backend < . 1 ack 1 sack 1001:2001
			guest > . 3001:4001 ack 1
			backend < . 1 ack 1 sack 3001:4001,1001:2001
			guest > . 2001:3001 ack 1
			backend < . 1 ack 1 sack 1001:4001
			guest > . 1:1001 ack 1
			backend < . 1 ack 4001
			host reads 4000
		`},
		{"the gap is closed in parts", setup{}, `
			guest opens mss 1460 sackok
			guest > . 1001:2001 ack 1
			backend < . 1 ack 1 sack 1001:2001
			guest > . 3001:4001 ack 1
			backend < . 1 ack 1 sack 3001:4001,1001:2001
			guest > . 1:1501 ack 1
			backend < . 1 ack 2001 sack 3001:4001
			guest > . 2001:3501 ack 1
			backend < . 1 ack 4001
			host reads 4000
		`},
		{"repetitions and overlaps count once", setup{}, `
			guest opens mss 1460 sackok
			guest > . 1001:2001 ack 1
			backend < . 1 ack 1 sack 1001:2001
			guest > . 1001:2001 ack 1
			backend < . 1 ack 1 sack 1001:2001
			guest > . 501:1501 ack 1
			backend < . 1 ack 1 sack 501:2001
			guest > . 1501:2501 ack 1
			backend < . 1 ack 1 sack 501:2501
			guest > . 1:501 ack 1
			backend < . 1 ack 2501
			host reads 2500
		`},
		{"not without the guest's consent", setup{}, `
			guest opens mss 1460
			guest > . 1001:2001 ack 1
			backend < . 1 ack 1
			guest > . 1:1001 ack 1
			+40ms
			backend < . 1 ack 1001
			host reads 1000
		`},
		{"FIN waits for the gap", setup{}, `
			guest opens mss 1460 sackok
			guest > F. 1001:2001 ack 1
			backend < . 1 ack 1 sack 1001:2001
			guest > . 1:1001 ack 1
			backend < . 1 ack 2001
			guest > F. 1001:2001 ack 1
			+40ms
			backend < . 1 ack 2002
			host reads 2000
			host reads end
		`},
		{"nothing is left of a flow that ends", setup{}, `
			guest opens mss 1460 sackok
			guest > . 1001:2001 ack 1
			backend < . 1 ack 1 sack 1001:2001
			guest > R 1
			host reads reset
			flows 0
		`},
	})
}

// testFrame is a frame with n bytes of data.
func testFrame(n int) *link.Frame {
	fr := &link.Frame{Vecs: []iov.Vec{iov.Of(make([]byte, header.VnetLen+54+n))}, Bytes: 54 + n}
	fr.Packet.Payload, fr.Packet.End = 54, 54+n
	return fr
}

// TestEarlyIsBounded: neither many crumbs nor much data is kept without end, and
// the books are even when a flow is gone.
func TestEarlyIsBounded(t *testing.T) {
	h := &Handler{early: map[uint32]*early{}}
	f := &flow{rcvNxt: 1, rcvEdge: 1 << 20}
	f.set(hasEarly)
	e := &early{}
	h.early[7] = e
	for j := range uint32(maxEarlyPieces) {
		e.pieces = append(e.pieces, piece{seq: 100 + 2*j, data: []byte{0}})
		h.stashBytes += 1 + pieceOverhead
	}
	fr := testFrame(1000)
	h.keepEarly(7, f, fr, 100_000, 1000)
	if len(e.pieces) != maxEarlyPieces || h.stashBytes != maxEarlyPieces*(1+pieceOverhead) {
		t.Errorf("%d pieces, %d bytes", len(e.pieces), h.stashBytes)
	}
	h.dropEarly(7, f)
	if h.stashBytes != 0 || len(h.early) != 0 {
		t.Errorf("%d bytes are left", h.stashBytes)
	}
	h.stashBytes = maxStashBytes
	h.keepEarly(7, f, fr, 100_000, 1000)
	if len(h.early) != 0 {
		t.Error("kept beyond the bound")
	}
}

// TestBlocksReported: at most three, the one with the latest segment first.
func TestBlocksReported(t *testing.T) {
	e := &early{latest: 700}
	for _, seq := range []uint32{100, 300, 500, 700, 710, 900} {
		e.pieces = append(e.pieces, piece{seq: seq, data: make([]byte, 10)})
	}
	got := e.blocks(nil)
	want := header.SACKBlock{Left: 700, Right: 720}
	if len(got) != maxSACKBlocks || got[0] != want {
		t.Errorf("blocks %v, want three and %v first", got, want)
	}
}

// TestFinWaitsForWhatWasRefused: a FIN does not count while bytes before it could
// not be kept, or the host's peer would take the rest for everything.
func TestFinWaitsForWhatWasRefused(t *testing.T) {
	h := &Handler{}
	f := &flow{state: established, rcvNxt: 1001, hostTaken: 1001, fd: -1}
	f.set(hasStash) // so that nothing is shut down
	h.finFromGuest(3, f, 2001)
	if f.has(guestFin) || f.rcvNxt != 1001 {
		t.Errorf("FIN behind a gap was taken, next is %d", f.rcvNxt)
	}
	h.finFromGuest(3, f, 1001)
	if !f.has(guestFin) || f.rcvNxt != 1002 {
		t.Errorf("FIN in its place was not taken, next is %d", f.rcvNxt)
	}
}

// TestFinishedPiecesAreLetGo: a piece that was joined is not kept alive by those
// behind it, and what pieces cost is counted.
func TestFinishedPiecesAreLetGo(t *testing.T) {
	h := &Handler{early: map[uint32]*early{}, stash: map[uint32][]byte{}}
	f := &flow{state: established, rcvNxt: 1, hostTaken: 1, rcvEdge: 1 << 20, fd: -1}
	f.set(hasStash)
	fr := testFrame(100)
	h.keepEarly(1, f, fr, 101, 100)
	h.keepEarly(1, f, fr, 301, 100)
	if want := 2 * (100 + pieceOverhead); h.stashBytes != want {
		t.Errorf("%d bytes counted, want %d", h.stashBytes, want)
	}
	all := h.early[1].pieces
	f.rcvNxt = 101
	h.joinEarly(1, f)
	if all[0].data != nil {
		t.Error("data of a piece that was joined is held")
	}
	h.dropEarly(1, f)
	h.dropStash(1, f)
	if h.stashBytes != 0 {
		t.Errorf("%d bytes are left", h.stashBytes)
	}
}
