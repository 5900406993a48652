package wire

// Virtio feature bits that mean something to the protocol itself.
const (
	// FeatureLogAll (VHOST_F_LOG_ALL) asks for dirty page logging.
	FeatureLogAll uint64 = 1 << 26
	// FeatureProtocol (VHOST_USER_F_PROTOCOL_FEATURES) says that protocol
	// features can be negotiated, and that rings start disabled.
	FeatureProtocol uint64 = 1 << 30
)

// Protocol feature bits, section "Protocol features" of the specification.
const (
	ProtocolMQ                uint64 = 1 << 0
	ProtocolLogShmFD          uint64 = 1 << 1
	ProtocolRARP              uint64 = 1 << 2
	ProtocolReplyAck          uint64 = 1 << 3
	ProtocolNetMTU            uint64 = 1 << 4
	ProtocolBackendReq        uint64 = 1 << 5
	ProtocolCrossEndian       uint64 = 1 << 6
	ProtocolCryptoSession     uint64 = 1 << 7
	ProtocolPagefault         uint64 = 1 << 8
	ProtocolConfig            uint64 = 1 << 9
	ProtocolBackendSendFD     uint64 = 1 << 10
	ProtocolHostNotifier      uint64 = 1 << 11
	ProtocolInflightShmFD     uint64 = 1 << 12
	ProtocolResetDevice       uint64 = 1 << 13
	ProtocolInband            uint64 = 1 << 14
	ProtocolConfigureMemSlots uint64 = 1 << 15
	ProtocolStatus            uint64 = 1 << 16
	ProtocolXenMmap           uint64 = 1 << 17
	ProtocolSharedObject      uint64 = 1 << 18
	ProtocolDeviceState       uint64 = 1 << 19
)
