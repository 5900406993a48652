package header

import "encoding/binary"

// VnetLen is the size of the virtio-net header in bytes, in both directions,
// for a device with VERSION_1 and without HASH_REPORT (virtio 1.3, 5.1.6).
const VnetLen = 12

// Bits of Vnet.Flags (virtio 1.3, 5.1.6).
const (
	VnetNeedsCsum = 1 // checksum from CsumStart to the end is still to be made
	VnetDataValid = 2 // to the guest only: checksum was verified
)

// Values of Vnet.GSOType; GSOECN may be added to the TCP ones.
const (
	GSONone  = 0
	GSOTCPv4 = 1
	GSOUDP   = 3 // UFO: one datagram, to be fragmented
	GSOTCPv6 = 4
	GSOUDPL4 = 5 // USO: a train of datagrams of GSOSize each
	GSOECN   = 0x80
)

// Feature bits of virtio-net that concern the frame format (virtio 1.3, 5.1.3).
const (
	FeatureCsum      = 1 << 0
	FeatureGuestCsum = 1 << 1
	FeatureGuestTSO4 = 1 << 7
	FeatureGuestTSO6 = 1 << 8
	FeatureGuestECN  = 1 << 9
	FeatureGuestUFO  = 1 << 10
	FeatureHostTSO4  = 1 << 11
	FeatureHostTSO6  = 1 << 12
	FeatureHostECN   = 1 << 13
	FeatureHostUFO   = 1 << 14
	FeatureMrgRxBuf  = 1 << 15
	FeatureGuestUSO4 = 1 << 54
	FeatureGuestUSO6 = 1 << 55
	FeatureHostUSO   = 1 << 56
)

// minGSOSize is the smallest segment size taken from a guest for TCP, in bytes.
// Linux refuses smaller ones as well: they only serve to make one frame explode.
const minGSOSize = 8

// maxUSOSegments is how many datagrams a frame may hold: as many as Linux puts into
// one (UDP_MAX_SEGMENTS of <linux/udp.h>, 64 before 6.9). They may be of any size.
const maxUSOSegments = 128

// Offsets of the checksum field inside the transport headers, in bytes.
const (
	TCPCsumOffset    = 16
	UDPCsumOffset    = 6
	ICMPCsumOffset   = 2
	ICMPv6CsumOffset = 2
)

// Vnet is the virtio-net header in front of every frame.
type Vnet struct {
	Flags      uint8
	GSOType    uint8
	HdrLen     uint16 // bytes of all headers; a hint when it comes from the guest
	GSOSize    uint16 // payload bytes per segment
	CsumStart  uint16 // offset in the frame, without this header
	CsumOffset uint16 // from CsumStart
	NumBuffers uint16 // to the guest: buffers used by this frame
}

// ParseVnet reads the header from the first VnetLen bytes of b, which must be
// there. It checks nothing: see CheckFromGuest.
func ParseVnet(b []byte) Vnet {
	le := binary.LittleEndian
	_ = b[VnetLen-1]
	return Vnet{
		Flags:      b[0],
		GSOType:    b[1],
		HdrLen:     le.Uint16(b[2:4]),
		GSOSize:    le.Uint16(b[4:6]),
		CsumStart:  le.Uint16(b[6:8]),
		CsumOffset: le.Uint16(b[8:10]),
		NumBuffers: le.Uint16(b[10:12]),
	}
}

// Put writes the header to the first VnetLen bytes of b and returns VnetLen.
func (v Vnet) Put(b []byte) int {
	le := binary.LittleEndian
	_ = b[VnetLen-1]
	b[0], b[1] = v.Flags, v.GSOType
	le.PutUint16(b[2:4], v.HdrLen)
	le.PutUint16(b[4:6], v.GSOSize)
	le.PutUint16(b[6:8], v.CsumStart)
	le.PutUint16(b[8:10], v.CsumOffset)
	le.PutUint16(b[10:12], v.NumBuffers)
	return VnetLen
}

// CheckFromGuest checks the header of a frame of frameLen bytes (without the
// header) from a driver that acknowledged features: ranges inside the frame,
// offloads negotiated (virtio 1.3, 5.1.6.2). NumBuffers, HdrLen and unknown
// flags are ignored, as the device must.
func (v Vnet) CheckFromGuest(features uint64, frameLen int) Verdict {
	if v.Flags&VnetNeedsCsum != 0 {
		if features&FeatureCsum == 0 {
			return NotNegotiated
		}
		if int(v.CsumStart) < EthLen || int(v.CsumStart)+int(v.CsumOffset)+2 > frameLen {
			return BadVnetCsum
		}
	}
	if v.GSOType == GSONone {
		return OK
	}
	var need uint64
	switch v.GSOType &^ GSOECN {
	case GSOTCPv4:
		need = FeatureHostTSO4
	case GSOTCPv6:
		need = FeatureHostTSO6
	case GSOUDPL4:
		need = FeatureHostUSO
	case GSOUDP:
		need = FeatureHostUFO
	default:
		return BadVnetGSO
	}
	if v.GSOType&GSOECN != 0 {
		if need != FeatureHostTSO4 && need != FeatureHostTSO6 {
			return BadVnetGSO
		}
		need |= FeatureHostECN
	}
	if features&need != need {
		return NotNegotiated
	}
	least := uint16(minGSOSize)
	if v.GSOType == GSOUDPL4 {
		least = 1 // the number of segments is bounded: see Matches
	}
	if v.Flags&VnetNeedsCsum == 0 || v.GSOSize < least {
		return BadVnetGSO
	}
	return OK
}

// Matches checks the header against the frame that Parse found behind it: the
// segmentation type fits the protocol, the checksum range is the transport's, and
// a train of datagrams has no more of them than one call of the guest can make. It
// needs a Vnet that passed CheckFromGuest.
func (v Vnet) Matches(p *Packet) Verdict {
	if v.GSOType == GSONone {
		return OK
	}
	var ok bool
	switch v.GSOType &^ GSOECN {
	case GSOTCPv4:
		ok = p.EtherType == EtherTypeIPv4 && p.Proto == ProtoTCP && v.CsumOffset == TCPCsumOffset
	case GSOTCPv6:
		ok = p.EtherType == EtherTypeIPv6 && p.Proto == ProtoTCP && v.CsumOffset == TCPCsumOffset
	case GSOUDPL4:
		ok = p.Proto == ProtoUDP && v.CsumOffset == UDPCsumOffset && p.End-p.Payload <= maxUSOSegments*int(v.GSOSize)
	case GSOUDP:
		ok = p.Proto == ProtoUDP && v.CsumOffset == UDPCsumOffset
	}
	if !ok || p.IsFragment() || int(v.CsumStart) != p.L4 {
		return BadVnetGSO
	}
	return OK
}
