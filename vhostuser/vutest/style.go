package vutest

import (
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// Style is the frontend to be imitated: which protocol features it takes, and
// in which order it sends what. The orders were recorded from QEMU 11.1, UML
// 7.2 and DPDK's virtio-user; cloud-hypervisor's comes from its sources.
type Style uint8

const (
	// QEMU negotiates before it claims ownership, enables rings before
	// anything else is known about them, and starts and stops each queue
	// pair on its own.
	QEMU Style = iota
	// UML asks for an acknowledgement with every request, sets the kick
	// descriptors last, and never stops a ring.
	UML
	// DPDK sends the call descriptors before the features, and pauses by
	// disabling.
	DPDK
	// CloudHypervisor enables rings at the very end, and tells the driver's
	// available index as the one to go on at.
	CloudHypervisor
)

// String returns the name of the frontend.
func (s Style) String() string {
	return [...]string{"QEMU", "UML", "DPDK", "cloud-hypervisor"}[s]
}

// protocol returns the protocol features that the frontend takes if offered.
func (s Style) protocol() uint64 {
	switch s {
	case UML:
		return wire.ProtocolMQ | wire.ProtocolReplyAck | wire.ProtocolBackendReq | wire.ProtocolConfig
	case DPDK:
		return wire.ProtocolMQ | wire.ProtocolReplyAck | wire.ProtocolStatus
	case CloudHypervisor:
		return wire.ProtocolMQ | wire.ProtocolLogShmFD | wire.ProtocolConfigureMemSlots | wire.ProtocolReplyAck | wire.ProtocolConfig
	default:
		return wire.ProtocolMQ | wire.ProtocolLogShmFD | wire.ProtocolRARP | wire.ProtocolReplyAck | wire.ProtocolNetMTU |
			wire.ProtocolBackendReq | wire.ProtocolResetDevice | wire.ProtocolConfigureMemSlots | wire.ProtocolStatus
	}
}

// Bits of the virtio device status, virtio 1.2 section 2.1.
const (
	statusAcknowledge = 1
	statusDriver      = 2
	statusDriverOK    = 4
	statusFeaturesOK  = 8
)
