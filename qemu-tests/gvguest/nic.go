package gvguest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	gvheader "gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// NICConfig is how the driver uses its device.
type NICConfig struct {
	Features   uint64 // negotiated
	MTU        int
	RxBufBytes int // of each receive buffer
	RxBuffers  int // how many; 0: as many as the ring takes
	// ToGuest and FromGuest impair the directions.
	ToGuest, FromGuest Impairment
	Seed               uint64
	// Tap, if not nil, sees each frame at the device, so behind the impairment
	// on its way from the guest and before it on its way to the guest. It is
	// called by two goroutines.
	Tap func(fromGuest bool, frame []byte)
}

// NIC is the driver of a virtio network device, and a link endpoint of gVisor's
// stack below its Ethernet endpoint.
type NIC struct {
	cfg   NICConfig
	rings *Rings
	rx    receiver
	tx    transmitter

	mu         sync.Mutex
	dispatcher stack.NetworkDispatcher
	err        error // the first thing that the device did wrong

	closing atomic.Bool
	done    sync.WaitGroup
}

var (
	_ stack.LinkEndpoint = (*NIC)(nil)
	_ stack.GSOEndpoint  = (*NIC)(nil)
)

// NewNIC starts a driver on rings, of which it is the only user until Close.
func NewNIC(rings *Rings, cfg NICConfig) (*NIC, error) {
	n := &NIC{cfg: cfg, rings: rings}
	if err := n.rx.init(n); err != nil {
		return nil, err
	}
	if err := n.tx.init(n); err != nil {
		return nil, errors.Join(err, unix.Close(n.rx.wakeFD))
	}
	n.done.Add(2)
	go n.rx.run()
	go n.tx.run()
	return n, nil
}

// Halt stops the driver as a power cut does: the rings stay as they are. It must
// not be called by a goroutine of the stack.
func (n *NIC) Halt() {
	if n.closing.Swap(true) {
		return
	}
	signal(n.rx.wakeFD)
	signal(n.tx.wakeFD)
	n.done.Wait()
	unix.Close(n.rx.wakeFD)
	unix.Close(n.tx.wakeFD)
}

// Drain waits until the device has taken everything that the stack has sent, or
// reports false after timeout.
func (n *NIC) Drain(timeout time.Duration) bool {
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n.tx.mu.Lock()
		waiting := len(n.tx.waiting)
		n.tx.mu.Unlock()
		signal(n.tx.wakeFD) // so that it reaps
		if waiting == 0 && n.tx.idle.Load() {
			return true
		}
	}
	return false
}

// Err returns the first thing that the device did wrong, or nil.
func (n *NIC) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// fail notes what the device did wrong.
func (n *NIC) fail(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = fmt.Errorf("device: "+format, args...)
	}
}

// Withhold keeps the driver from giving buffers to the device (true), or lets it
// go on (false).
func (n *NIC) Withhold(on bool) {
	n.rx.withheld.Store(on)
	signal(n.rx.wakeFD)
}

// Received returns how many frames came from the device.
func (n *NIC) Received() uint64 { return n.rx.frames.Load() }

// wait waits for a signal of either descriptor, and takes it.
func wait(callFD, wakeFD int, timeout time.Duration) {
	ms := -1
	if timeout >= 0 {
		ms = int(timeout/time.Millisecond) + 1
	}
	fds := []unix.PollFd{{Fd: int32(callFD), Events: unix.POLLIN}, {Fd: int32(wakeFD), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, ms); err != nil || n == 0 {
		return
	}
	for _, p := range fds {
		if p.Revents != 0 {
			drain(int(p.Fd))
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6776)) }

// WritePackets implements stack.LinkWriter.
func (n *NIC) WritePackets(pkts stack.PacketBufferList) (int, tcpip.Error) {
	return n.tx.queue(pkts.AsSlice()), nil
}

// Attach implements stack.LinkEndpoint.
func (n *NIC) Attach(d stack.NetworkDispatcher) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dispatcher = d
}

// IsAttached implements stack.LinkEndpoint.
func (n *NIC) IsAttached() bool { return n.attached() != nil }

func (n *NIC) attached() stack.NetworkDispatcher {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dispatcher
}

// GSOMaxSize implements stack.GSOEndpoint.
func (*NIC) GSOMaxSize() uint32 { return 65535 }

// SupportedGSO implements stack.GSOEndpoint. The stack knows one switch for both
// families.
func (n *NIC) SupportedGSO() stack.SupportedGSO {
	const both = header.FeatureCsum | header.FeatureHostTSO4 | header.FeatureHostTSO6
	if n.cfg.Features&both == both {
		return stack.HostGSOSupported
	}
	return stack.GSONotSupported
}

// MTU implements stack.LinkEndpoint: bytes of a frame, since the Ethernet
// endpoint above takes its header off.
func (n *NIC) MTU() uint32 { return uint32(n.cfg.MTU + gvheader.EthernetMinimumSize) }

// SetMTU implements stack.LinkEndpoint.
func (*NIC) SetMTU(uint32) {}

// Capabilities implements stack.LinkEndpoint. Every checksum is checked.
func (*NIC) Capabilities() stack.LinkEndpointCapabilities { return 0 }

// MaxHeaderLength implements stack.LinkEndpoint.
func (*NIC) MaxHeaderLength() uint16 { return 0 }

// LinkAddress implements stack.LinkEndpoint.
func (*NIC) LinkAddress() tcpip.LinkAddress { return guestMAC }

// SetLinkAddress implements stack.LinkEndpoint.
func (*NIC) SetLinkAddress(tcpip.LinkAddress) {}

// ARPHardwareType implements stack.LinkEndpoint.
func (*NIC) ARPHardwareType() gvheader.ARPHardwareType { return gvheader.ARPHardwareEther }

// AddHeader implements stack.LinkEndpoint.
func (*NIC) AddHeader(*stack.PacketBuffer) {}

// ParseHeader implements stack.LinkEndpoint.
func (*NIC) ParseHeader(*stack.PacketBuffer) bool { return true }

// Wait implements stack.LinkEndpoint.
func (*NIC) Wait() {}

// Close implements stack.LinkEndpoint; Halt stops the driver.
func (*NIC) Close() {}

// SetOnCloseAction implements stack.LinkEndpoint.
func (*NIC) SetOnCloseAction(func()) {}
