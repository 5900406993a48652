package vhostuser

import "github.com/vhost-net-go/vhost-net-go/virtqueue"

// Device is what a Server serves. All its methods are called from the goroutine
// of the one connection at hand, except that those marked "parked" run inside
// Park. They must return quickly: the frontend waits, and with it its guest.
type Device interface {
	// Features returns the virtio feature bits that are offered, the same
	// ones at each call. The bits of the protocol itself (26 and 30) are not
	// among them.
	Features() uint64
	// NumQueues returns how many virtqueues there are, 2 for each queue
	// pair: even ones receive (the device writes), odd ones transmit.
	NumQueues() int

	// Park runs f while no worker touches a ring or guest memory, and returns
	// after it. f calls the methods below.
	Park(f func())

	// SetFeatures says which of the features the driver acknowledged. Parked.
	// It precedes the first StartQueue and may come again, with the same or
	// other features, while all queues are stopped.
	SetFeatures(acked uint64) error
	// StartQueue hands over a ring, disabled until EnableQueue, which follows
	// at once. The device looks at the ring then: there may be chains that
	// nobody will announce again. It owns q until StopQueue. kick becomes readable when
	// the driver added chains; it is nonblocking, stays open until StopQueue
	// and belongs to the Server; -1 means that the device must poll. call is
	// never nil. Parked.
	StartQueue(i int, q *virtqueue.Queue, kick int, call Caller)
	// StopQueue takes a ring back. Before it returns, the device has put all
	// chains it holds back into the ring (Return or Untake) and published;
	// afterwards it does not touch q or memory found in its chains. Parked.
	StopQueue(i int)
	// EnableQueue says whether frames may pass a started ring. A disabled
	// receive ring is left alone, a disabled transmit ring is drained and its
	// frames are dropped. Parked.
	//
	// Before EnableQueue(i, false) returns, the device has put back all chains
	// as for StopQueue. From then on it must not touch the ring, not even to
	// arm or suppress kicks, but for draining a transmit ring after a kick:
	// UML's driver disables its rings and then frees their memory, without
	// stopping them.
	EnableQueue(i int, on bool)

	// ConfigSpace returns the device's configuration space (struct
	// virtio_net_config); what lies behind its end reads as zero.
	ConfigSpace() []byte
	// SetMTU says which MTU the guest will use, 68 to 65535.
	SetMTU(mtu uint16) error
	// SendRARP asks the device to tell the network where the guest with this
	// MAC address is now (after a migration).
	SendRARP(mac [6]byte)
	// Reset forgets the driver: it was reset (RESET_DEVICE), or the frontend
	// is gone. All queues have been stopped before. The features stay in
	// force until SetFeatures. QEMU resets more than once before a start.
	// Parked.
	//
	// SET_STATUS 0 does not lead here, although it is the way in which a
	// driver resets a virtio device: QEMU sends it each time it stops the
	// backend, also for a guest that is merely paused and will go on.
	Reset()
}

// Caller signals the driver that used elements were published. Call never
// blocks and allocates nothing; a signal that cannot be delivered is dropped.
// It must not be called while the device is parked or after StopQueue.
type Caller interface {
	Call()
}
