package tcp

import "testing"

// TestWindowShift: windows up to what a socket can hold, in the finest unit that
// can say it (RFC 7323 section 2.3).
func TestWindowShift(t *testing.T) {
	for _, tt := range []struct {
		maxBytes int
		want     uint8
	}{
		{16 << 10, 0},
		{0xffff, 0},
		{0x10000, 1},
		{4 << 20, 7},
		{32 << 20, 10},
		{0xffff << 14, 14},
		{8 << 30, 14},
	} {
		if got := windowShift(tt.maxBytes); got != tt.want {
			t.Errorf("buffers of %d bytes: shift %d, want %d", tt.maxBytes, got, tt.want)
		}
	}
}

// TestLittleRoomIsNotNone: a window smaller than its unit is not announced as
// closed, and what was announced is taken.
func TestLittleRoomIsNotNone(t *testing.T) {
	h := &Handler{}
	for _, tt := range []struct {
		room, want, edge uint32
	}{
		{0, 0, 1000},
		{1, 1, 1000 + 1<<14},
		{1 << 14, 1, 1000 + 1<<14},
		{3<<14 + 5, 3, 1000 + 3<<14 + 5},
	} {
		f := &flow{rcvShift: 14, rcvNxt: 1000, hostTaken: 1000, rcvEdge: 1000 + tt.room}
		if got := h.windowField(f); uint32(got) != tt.want || f.rcvEdge != tt.edge {
			t.Errorf("room %d: field %d and edge %d, want %d and %d", tt.room, got, f.rcvEdge, tt.want, tt.edge)
		}
	}
}
