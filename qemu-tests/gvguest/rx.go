package gvguest

import (
	"fmt"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// receiver is the receive side of a NIC; run is its goroutine.
type receiver struct {
	nic    *NIC
	ring   *Ring
	shim   shim
	wakeFD int

	withheld atomic.Bool
	frames   atomic.Uint64
	spare    []uint64 // addresses of buffers that the device does not have
	at       []uint64 // by head: the buffer's address

	// A frame that has not come as a whole.
	partial []byte
	vnet    header.Vnet
	missing int // buffers
}

func (r *receiver) init(n *NIC) error {
	*r = receiver{nic: n, ring: n.rings.Rx}
	size := int(r.ring.Ring().Size())
	r.at = make([]uint64, size)
	count := n.cfg.RxBuffers
	if count == 0 {
		count = size
	}
	for range count {
		addr, err := n.rings.Mem.Alloc(uint64(n.cfg.RxBufBytes), 64)
		if err != nil {
			return fmt.Errorf("receive buffers: %w", err)
		}
		r.spare = append(r.spare, addr)
	}
	r.shim = shim{imp: n.cfg.ToGuest, rng: newRand(n.cfg.Seed), out: r.deliver}
	var err error
	r.wakeFD, err = eventfd()
	return err
}

func (r *receiver) run() {
	defer r.nic.done.Done()
	for !r.nic.closing.Load() {
		r.ring.DisableCalls()
		if !r.reap() {
			return
		}
		r.refill()
		timeout := r.shim.expire()
		if !r.ring.EnableCalls() {
			wait(r.ring.CallFD, r.wakeFD, timeout)
		}
	}
}

// refill gives the spare buffers to the device.
func (r *receiver) refill() {
	if r.withheld.Load() {
		return
	}
	for len(r.spare) > 0 {
		addr := r.spare[len(r.spare)-1]
		head, err := r.ring.Add(nil, []virtqtest.Buffer{{Addr: addr, Len: uint32(r.nic.cfg.RxBufBytes)}})
		if err != nil {
			break
		}
		r.at[head] = addr
		r.spare = r.spare[:len(r.spare)-1]
	}
	if r.ring.Kick() {
		signal(r.ring.KickFD)
	}
}

// reap takes what the device has returned. It reports false when the device is
// not to be trusted any more.
func (r *receiver) reap() bool {
	for {
		u, ok, err := r.ring.Reap()
		if err != nil {
			r.nic.fail("receive ring: %w", err)
			return false
		}
		if !ok {
			return true
		}
		addr := r.at[u.Head]
		r.buffer(r.nic.rings.Mem.Bytes(addr, uint64(u.Len)))
		r.spare = append(r.spare, addr)
		if len(r.spare)%64 == 0 {
			r.refill()
		}
	}
}

// buffer takes one buffer of a frame.
func (r *receiver) buffer(b []byte) {
	if len(b) == 0 && r.missing == 0 {
		return // returned unused
	}
	if r.missing == 0 {
		if len(b) < header.VnetLen+header.EthLen {
			r.nic.fail("frame in a buffer of %d bytes", len(b))
			return
		}
		r.vnet = header.ParseVnet(b)
		n := int(r.vnet.NumBuffers)
		if n == 0 || n > 1 && r.nic.cfg.Features&header.FeatureMrgRxBuf == 0 {
			r.nic.fail("frame of %d buffers", n)
			return
		}
		r.partial, r.missing = append([]byte(nil), b[header.VnetLen:]...), n
	} else {
		r.partial = append(r.partial, b...)
	}
	if r.missing--; r.missing > 0 {
		if len(b) != r.nic.cfg.RxBufBytes {
			r.nic.fail("%d bytes in a buffer that is not the frame's last", len(b))
		}
		return
	}
	frame := r.partial
	r.partial = nil
	r.frames.Add(1)
	if err := checkVnet(r.vnet, len(frame), r.nic.cfg.MTU, r.nic.cfg.Features); err != nil {
		r.nic.fail("%w", err)
		return
	}
	complete(frame, r.vnet)
	if r.nic.cfg.Tap != nil {
		r.nic.cfg.Tap(false, frame)
	}
	r.shim.put(frame)
}

// deliver hands a frame to the stack.
func (r *receiver) deliver(frame []byte) {
	d := r.nic.attached()
	if d == nil {
		return
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
	d.DeliverNetworkPacket(0, pkt)
	pkt.DecRef()
}
