package wire

import "fmt"

// Request is the identifier in a message from the frontend to the backend. A
// reply repeats the identifier of its request.
type Request uint32

// Requests of the frontend, in the order of the specification's section
// "Front-end message types".
const (
	GetFeatures         Request = 1
	SetFeatures         Request = 2
	SetOwner            Request = 3
	ResetOwner          Request = 4
	SetMemTable         Request = 5
	SetLogBase          Request = 6
	SetLogFD            Request = 7
	SetVringNum         Request = 8
	SetVringAddr        Request = 9
	SetVringBase        Request = 10
	GetVringBase        Request = 11
	SetVringKick        Request = 12
	SetVringCall        Request = 13
	SetVringErr         Request = 14
	GetProtocolFeatures Request = 15
	SetProtocolFeatures Request = 16
	GetQueueNum         Request = 17
	SetVringEnable      Request = 18
	SendRARP            Request = 19
	NetSetMTU           Request = 20
	SetBackendReqFD     Request = 21
	IOTLBMsg            Request = 22
	SetVringEndian      Request = 23
	GetConfig           Request = 24
	SetConfig           Request = 25
	CreateCryptoSession Request = 26
	CloseCryptoSession  Request = 27
	PostcopyAdvise      Request = 28
	PostcopyListen      Request = 29
	PostcopyEnd         Request = 30
	GetInflightFD       Request = 31
	SetInflightFD       Request = 32
	GPUSetSocket        Request = 33
	ResetDevice         Request = 34
	VringKick           Request = 35
	GetMaxMemSlots      Request = 36
	AddMemReg           Request = 37
	RemMemReg           Request = 38
	SetStatus           Request = 39
	GetStatus           Request = 40
	GetSharedObject     Request = 41
	SetDeviceStateFD    Request = 42
	CheckDeviceState    Request = 43
	GetShmemConfig      Request = 44
)

// LastRequest is the highest identifier that this package has a name for.
const LastRequest = GetShmemConfig

var requestNames = [LastRequest + 1]string{
	GetFeatures:         "GET_FEATURES",
	SetFeatures:         "SET_FEATURES",
	SetOwner:            "SET_OWNER",
	ResetOwner:          "RESET_OWNER",
	SetMemTable:         "SET_MEM_TABLE",
	SetLogBase:          "SET_LOG_BASE",
	SetLogFD:            "SET_LOG_FD",
	SetVringNum:         "SET_VRING_NUM",
	SetVringAddr:        "SET_VRING_ADDR",
	SetVringBase:        "SET_VRING_BASE",
	GetVringBase:        "GET_VRING_BASE",
	SetVringKick:        "SET_VRING_KICK",
	SetVringCall:        "SET_VRING_CALL",
	SetVringErr:         "SET_VRING_ERR",
	GetProtocolFeatures: "GET_PROTOCOL_FEATURES",
	SetProtocolFeatures: "SET_PROTOCOL_FEATURES",
	GetQueueNum:         "GET_QUEUE_NUM",
	SetVringEnable:      "SET_VRING_ENABLE",
	SendRARP:            "SEND_RARP",
	NetSetMTU:           "NET_SET_MTU",
	SetBackendReqFD:     "SET_BACKEND_REQ_FD",
	IOTLBMsg:            "IOTLB_MSG",
	SetVringEndian:      "SET_VRING_ENDIAN",
	GetConfig:           "GET_CONFIG",
	SetConfig:           "SET_CONFIG",
	CreateCryptoSession: "CREATE_CRYPTO_SESSION",
	CloseCryptoSession:  "CLOSE_CRYPTO_SESSION",
	PostcopyAdvise:      "POSTCOPY_ADVISE",
	PostcopyListen:      "POSTCOPY_LISTEN",
	PostcopyEnd:         "POSTCOPY_END",
	GetInflightFD:       "GET_INFLIGHT_FD",
	SetInflightFD:       "SET_INFLIGHT_FD",
	GPUSetSocket:        "GPU_SET_SOCKET",
	ResetDevice:         "RESET_DEVICE",
	VringKick:           "VRING_KICK",
	GetMaxMemSlots:      "GET_MAX_MEM_SLOTS",
	AddMemReg:           "ADD_MEM_REG",
	RemMemReg:           "REM_MEM_REG",
	SetStatus:           "SET_STATUS",
	GetStatus:           "GET_STATUS",
	GetSharedObject:     "GET_SHARED_OBJECT",
	SetDeviceStateFD:    "SET_DEVICE_STATE_FD",
	CheckDeviceState:    "CHECK_DEVICE_STATE",
	GetShmemConfig:      "GET_SHMEM_CONFIG",
}

// String returns the name that the specification uses, without the prefix
// VHOST_USER_, or the number when there is no name for it.
func (r Request) String() string {
	if r <= LastRequest && requestNames[r] != "" {
		return requestNames[r]
	}
	return fmt.Sprintf("request %d", uint32(r))
}
