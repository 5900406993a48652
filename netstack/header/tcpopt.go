package header

// TCP option kinds (IANA).
const (
	optEnd       = 0
	optNop       = 1
	optMSS       = 2 // RFC 9293 section 3.7.1
	optWScale    = 3 // RFC 7323 section 2
	optSACKPerm  = 4 // RFC 2018 section 2
	optSACK      = 5 // RFC 2018 section 3
	optTimestamp = 8 // RFC 7323 section 3
)

// MaxWScale is the largest window scale that counts (RFC 7323 section 2.3).
const MaxWScale = 14

// SACKBlock is a range of sequence numbers that the guest holds: [Left, Right).
type SACKBlock struct{ Left, Right uint32 }

// TCPOptions are the options of one segment.
type TCPOptions struct {
	MSS           uint16 // bytes; 0: not given
	WScale        uint8  // 0 to MaxWScale, valid if HasWScale
	HasWScale     bool
	SACKPermitted bool
	HasTimestamps bool
	TSVal, TSEcr  uint32
	NumSACK       uint8 // valid entries of SACK
	SACK          [4]SACKBlock
}

// ParseOptions reads the options of t into o. Options that are unknown or have
// a wrong length are skipped; a length that cannot be skipped ends the walk
// (RFC 9293 section 3.1: MUST-7).
func (t TCP) ParseOptions(o *TCPOptions) {
	*o = TCPOptions{}
	b := t[TCPLen:min(len(t), max(t.HeaderLen(), TCPLen))]
	for len(b) > 0 {
		switch b[0] {
		case optEnd:
			return
		case optNop:
			b = b[1:]
			continue
		}
		if len(b) < 2 {
			return
		}
		n := int(b[1])
		if n < 2 || n > len(b) {
			return
		}
		o.add(b[0], b[2:n])
		b = b[n:]
	}
}

func (o *TCPOptions) add(kind uint8, v []byte) {
	switch {
	case kind == optMSS && len(v) == 2:
		o.MSS = be.Uint16(v)
	case kind == optWScale && len(v) == 1:
		o.WScale, o.HasWScale = min(v[0], MaxWScale), true
	case kind == optSACKPerm && len(v) == 0:
		o.SACKPermitted = true
	case kind == optTimestamp && len(v) == 8:
		o.HasTimestamps = true
		o.TSVal, o.TSEcr = be.Uint32(v[0:4]), be.Uint32(v[4:8])
	case kind == optSACK && len(v)%8 == 0:
		o.NumSACK = 0
		for len(v) >= 8 && int(o.NumSACK) < len(o.SACK) {
			o.SACK[o.NumSACK] = SACKBlock{be.Uint32(v[0:4]), be.Uint32(v[4:8])}
			o.NumSACK++
			v = v[8:]
		}
	}
}

// Sizes of the options as the Put functions write them, in bytes: all padded to
// multiples of 4.
const (
	TCPOptMSSLen        = 4
	TCPOptWScaleLen     = 4
	TCPOptSACKPermLen   = 4
	TCPOptTimestampsLen = 12
)

// PutTCPMSS writes the maximum segment size option.
func PutTCPMSS(b []byte, mss uint16) int {
	_ = b[TCPOptMSSLen-1]
	b[0], b[1] = optMSS, 4
	be.PutUint16(b[2:4], mss)
	return TCPOptMSSLen
}

// PutTCPWScale writes a no-operation and the window scale option.
func PutTCPWScale(b []byte, shift uint8) int {
	_ = b[TCPOptWScaleLen-1]
	b[0], b[1], b[2], b[3] = optNop, optWScale, 3, shift
	return TCPOptWScaleLen
}

// PutTCPSACKPermitted writes two no-operations and the SACK-permitted option.
func PutTCPSACKPermitted(b []byte) int {
	_ = b[TCPOptSACKPermLen-1]
	b[0], b[1], b[2], b[3] = optNop, optNop, optSACKPerm, 2
	return TCPOptSACKPermLen
}

// PutTCPTimestamps writes two no-operations and the timestamps option.
func PutTCPTimestamps(b []byte, tsVal, tsEcr uint32) int {
	_ = b[TCPOptTimestampsLen-1]
	b[0], b[1], b[2], b[3] = optNop, optNop, optTimestamp, 10
	be.PutUint32(b[4:8], tsVal)
	be.PutUint32(b[8:12], tsEcr)
	return TCPOptTimestampsLen
}
