package vhostuser

import "github.com/vhost-net-go/vhost-net-go/vhostuser/wire"

// servedProtocolFeatures are those that this package can carry out.
const servedProtocolFeatures = wire.ProtocolMQ |
	wire.ProtocolLogShmFD |
	wire.ProtocolRARP |
	wire.ProtocolReplyAck |
	wire.ProtocolNetMTU |
	wire.ProtocolBackendReq |
	wire.ProtocolConfig |
	wire.ProtocolResetDevice |
	wire.ProtocolConfigureMemSlots |
	wire.ProtocolStatus

// DefaultProtocolFeatures is the set of protocol features that is offered
// unless the Config says otherwise. What each does for a frontend:
//
//   - MQ: needed by all for more than one queue pair; UML, cloud-hypervisor
//     and crosvm then ask for the number of virtqueues.
//   - LOG_SHMFD: the guest can be migrated, see session.logging. Virtio feature
//     26 (VHOST_F_LOG_ALL) is offered with it.
//   - RARP: without it QEMU reports an error after the migration of a guest
//     that does not announce itself.
//   - REPLY_ACK: lets frontends learn of failures instead of running on.
//   - NET_MTU: QEMU passes the MTU of its host_mtu option.
//   - BACKEND_REQ: UML 6.1 does not start without it. Nothing is ever sent
//     over the socket that it brings.
//   - CONFIG: UML and crosvm read the configuration space (MAC, MTU) from
//     here. QEMU keeps the space of a network device itself and warns about
//     the bit once for each queue pair, which reads like a fault, so it is
//     hidden from a frontend that negotiates in QEMU's order: see
//     session.offeredProtocolFeatures.
//   - RESET_DEVICE: the only way in which QEMU 8.2 and later tells a reset of
//     the driver from a pause of the guest.
//   - CONFIGURE_MEM_SLOTS: memory beyond 8 regions, and hotplug that leaves the
//     other regions alone (QEMU, cloud-hypervisor).
//   - STATUS: QEMU and DPDK report the driver's status; QEMU before 8.2 has
//     no other sign of a driver that is gone.
//
// Left out on purpose: INBAND_NOTIFICATIONS and XEN_MMAP are acknowledged by
// QEMU, which then does not do them. PAGEFAULT, INFLIGHT_SHMFD, DEVICE_STATE and
// HOST_NOTIFIER promise what is not there.
const DefaultProtocolFeatures = servedProtocolFeatures

// offeredProtocolFeatures is what this frontend gets to see.
//
// The specification does not fix the order of SET_OWNER and the negotiation of
// protocol features. QEMU, all versions from 7.2, negotiates first; UML, DPDK,
// cloud-hypervisor and crosvm claim ownership first. That tells QEMU, which
// warns about CONFIG, from those that make use of it. A frontend on the wrong
// side of the guess loses nothing but the configuration space, or gains one
// warning.
func (s *session) offeredProtocolFeatures() uint64 {
	if s.order == negotiatesFirst {
		return s.srv.cfg.ProtocolFeatures &^ wire.ProtocolConfig
	}
	return s.srv.cfg.ProtocolFeatures
}

// queueNum answers GET_QUEUE_NUM. The specification leaves open what is
// counted: QEMU compares the answer with the queue pairs that it was told to
// use, UML, cloud-hypervisor and crosvm with the virtqueues. So that each of
// them refuses what the device does not have, each gets its own unit.
func (s *session) queueNum() uint64 {
	n := uint64(len(s.rings))
	if s.order == negotiatesFirst {
		return max(n/2, 1)
	}
	return n
}

// startOrder says what a frontend did first.
type startOrder uint8

const (
	orderUnknown startOrder = iota
	negotiatesFirst
	ownsFirst
)

// noteOrder remembers which of the two came first in this connection. QEMU
// repeats the negotiation for each queue pair, after it has become the owner.
func (s *session) noteOrder(o startOrder) {
	if s.order == orderUnknown {
		s.order = o
	}
}
