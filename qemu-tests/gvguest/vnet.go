package gvguest

import (
	"encoding/binary"
	"fmt"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	gvheader "gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// checkVnet checks the header of a frame from the device (virtio 1.2, section
// 5.1.6.4) against what was negotiated.
func checkVnet(v header.Vnet, frameBytes, mtu int, features uint64) error {
	has := func(f uint64) bool { return features&f != 0 }
	if v.Flags != 0 && !has(header.FeatureGuestCsum) {
		return fmt.Errorf("flags %#x without GUEST_CSUM", v.Flags)
	}
	if v.Flags&header.VnetNeedsCsum != 0 && int(v.CsumStart)+int(v.CsumOffset)+2 > frameBytes {
		return fmt.Errorf("checksum at %d+%d in a frame of %d bytes", v.CsumStart, v.CsumOffset, frameBytes)
	}
	switch v.GSOType &^ header.GSOECN {
	case header.GSONone:
		if most := mtu + header.EthLen; frameBytes > most {
			return fmt.Errorf("frame of %d bytes, at most %d without GSO", frameBytes, most)
		}
		return nil
	case header.GSOTCPv4:
		if !has(header.FeatureGuestTSO4) {
			return fmt.Errorf("GSO type %d without GUEST_TSO4", v.GSOType)
		}
	case header.GSOTCPv6:
		if !has(header.FeatureGuestTSO6) {
			return fmt.Errorf("GSO type %d without GUEST_TSO6", v.GSOType)
		}
	default:
		return fmt.Errorf("GSO type %d was never offered", v.GSOType)
	}
	switch {
	case v.Flags&header.VnetNeedsCsum == 0:
		return fmt.Errorf("GSO frame without NEEDS_CSUM")
	case v.GSOSize == 0 || int(v.GSOSize)+int(v.HdrLen) > mtu+header.EthLen:
		return fmt.Errorf("GSO size %d behind %d bytes of headers", v.GSOSize, v.HdrLen)
	case int(v.HdrLen) < header.EthLen+header.IPv4Len+header.TCPLen || int(v.HdrLen) >= frameBytes:
		return fmt.Errorf("header length %d of a frame of %d bytes", v.HdrLen, frameBytes)
	}
	return nil
}

// complete makes a partial checksum whole, so that the stack checks that it was
// a right one.
func complete(frame []byte, v header.Vnet) {
	if v.Flags&header.VnetNeedsCsum == 0 {
		return
	}
	at := int(v.CsumStart) + int(v.CsumOffset)
	// Most senders leave the sum of the pseudo header in the field.
	sum := ^checksum.Checksum(frame[v.CsumStart:], 0)
	if sum == 0 {
		sum = 0xffff // same value, and not "none" for UDP
	}
	binary.BigEndian.PutUint16(frame[at:], sum)
}

// vnetOf returns the header of a packet that the stack sends.
func vnetOf(pkt *stack.PacketBuffer) (v header.Vnet) {
	gso := &pkt.GSOOptions
	if gso.Type == stack.GSONone {
		return v
	}
	v.HdrLen = uint16(pkt.HeaderSize())
	if gso.NeedsCsum {
		v.Flags = header.VnetNeedsCsum
		v.CsumStart = gvheader.EthernetMinimumSize + gso.L3HdrLen
		v.CsumOffset = gso.CsumOffset
	}
	if pkt.Data().Size() > int(gso.MSS) {
		v.GSOType, v.GSOSize = header.GSOTCPv4, gso.MSS
		if gso.Type == stack.GSOTCPv6 {
			v.GSOType = header.GSOTCPv6
		}
	}
	return v
}
