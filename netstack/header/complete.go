package header

import "github.com/vhost-net-go/vhost-net-go/virtqueue/iov"

// csumOffset returns where the checksum field is in the header of proto.
func csumOffset(proto uint8) int {
	switch proto {
	case ProtoTCP:
		return TCPCsumOffset
	case ProtoUDP:
		return UDPCsumOffset
	}
	return ICMPCsumOffset
}

// SetPartialChecksum prepares the transport header at b for an offload: its
// checksum field becomes the pseudo-header sum, to which the other side adds
// header and data (VnetNeedsCsum). length counts header and data in bytes;
// proto is TCP, UDP or ICMPv6.
func SetPartialChecksum(b []byte, src, dst *Addr, proto uint8, length int) {
	off := csumOffset(proto)
	be.PutUint16(b[off:off+2], PseudoSum(src, dst, proto, uint32(length)))
}

// SetChecksum computes the checksum of the transport message b, header and
// data, and stores it in its header. proto is TCP, UDP, ICMPv6, or ICMP, which
// has no pseudo-header.
func SetChecksum(b []byte, src, dst *Addr, proto uint8) {
	SetChecksumVecs(b, nil, src, dst, proto)
}

// SetChecksumVecs is [SetChecksum] for a message whose header (and beginning)
// is b and whose rest is in data. The length of b must be even if data is not
// empty.
func SetChecksumVecs(b []byte, data []iov.Vec, src, dst *Addr, proto uint8) {
	off := csumOffset(proto)
	n := iov.Len(data)
	var sum uint16
	if proto != ProtoICMP {
		sum = PseudoSum(src, dst, proto, uint32(len(b)+n))
	}
	be.PutUint16(b[off:off+2], 0)
	sum = SumVecs(data, 0, n, Sum(b, sum))
	be.PutUint16(b[off:off+2], NonZero(^sum))
}

// Complete does in software what VnetNeedsCsum asks for: it adds up frame from
// start to its end, where the field at start+offset holds the pseudo-header
// sum, and stores the checksum there. It returns false, and does nothing, if
// the field is not inside the frame.
func Complete(frame []byte, start, offset int) bool {
	at := start + offset
	if start < 0 || offset < 0 || at+2 > len(frame) {
		return false
	}
	be.PutUint16(frame[at:at+2], NonZero(^Sum(frame[start:], 0)))
	return true
}

// CompleteVecs is [Complete] for a frame that starts skip bytes into vs.
func CompleteVecs(vs []iov.Vec, skip, start, offset int) bool {
	n := iov.Len(vs) - skip
	at := start + offset
	if skip < 0 || start < 0 || offset < 0 || at+2 > n {
		return false
	}
	var field [2]byte
	be.PutUint16(field[:], NonZero(^SumVecs(vs, skip+start, n-start, 0)))
	iov.CopyIn(vs, skip+at, field[:])
	return true
}

// ChecksumOK verifies the checksum of the transport message b, header and data.
// A UDP checksum of 0 over IPv4 means that there is none.
func ChecksumOK(b []byte, src, dst *Addr, proto uint8) bool {
	off := csumOffset(proto)
	if len(b) < off+2 {
		return false
	}
	if proto == ProtoUDP && be.Uint16(b[off:off+2]) == 0 {
		return src.Is4()
	}
	var sum uint16
	if proto != ProtoICMP {
		sum = PseudoSum(src, dst, proto, uint32(len(b)))
	}
	return Sum(b, sum) == 0xffff
}
