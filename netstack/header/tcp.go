package header

// TCP flag bits, as in byte 13 of the header (RFC 9293 section 3.1).
const (
	TCPFin = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
	TCPUrg
	TCPEce
	TCPCwr
)

// TCP is a view of a TCP header with its options: hdr[p.L4:p.Payload] of a
// packet that Parse accepted. At least TCPLen bytes.
type TCP []byte

// Seq returns the sequence number.
func (t TCP) Seq() uint32 { return be.Uint32(t[4:8]) }

// Ack returns the acknowledgement number; it counts only with TCPAck set.
func (t TCP) Ack() uint32 { return be.Uint32(t[8:12]) }

// Flags returns the flag bits.
func (t TCP) Flags() uint8 { return t[13] }

// Window returns the window field, not scaled.
func (t TCP) Window() uint16 { return be.Uint16(t[14:16]) }

// Urgent returns the urgent pointer; it counts only with TCPUrg set.
func (t TCP) Urgent() uint16 { return be.Uint16(t[18:20]) }

// HeaderLen returns the size of the header with options in bytes (data offset).
func (t TCP) HeaderLen() int { return int(t[12]>>4) * 4 }

// TCPFields are the fields of a TCP header that PutTCP writes.
type TCPFields struct {
	SrcPort, DstPort uint16
	Seq, Ack         uint32
	Flags            uint8
	Window           uint16
}

// PutTCP writes a TCP header of TCPLen bytes whose data offset makes room for
// optionBytes of options, a multiple of 4 up to 40. Checksum and urgent pointer
// are 0. It returns TCPLen: the options are the caller's to write.
func PutTCP(b []byte, f *TCPFields, optionBytes int) int {
	_ = b[TCPLen-1]
	be.PutUint16(b[0:2], f.SrcPort)
	be.PutUint16(b[2:4], f.DstPort)
	SetTCP(b, f.Seq, f.Ack, f.Flags, f.Window)
	b[12] = uint8((TCPLen+optionBytes)/4) << 4
	be.PutUint32(b[16:20], 0)
	return TCPLen
}

// SetTCP overwrites the fields that change from segment to segment in the TCP
// header at b. It leaves the checksum alone.
func SetTCP(b []byte, seq, ack uint32, flags uint8, window uint16) {
	_ = b[TCPLen-1]
	be.PutUint32(b[4:8], seq)
	be.PutUint32(b[8:12], ack)
	b[13] = flags
	be.PutUint16(b[14:16], window)
}
