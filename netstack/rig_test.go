package netstack_test

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/dirtylog"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/guestmem"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Addresses of the tests' link. The guest reaches the host's loopback under
// loopback4.
var (
	gatewayMAC = header.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}
	guestMAC   = header.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	guest4     = netip.MustParseAddr("10.0.2.15")
	gateway4   = netip.MustParseAddr("10.0.2.2")
	prefix6    = netip.MustParsePrefix("2001:db8:1::/64")
	loopback4  = netip.MustParseAddr("192.0.2.1")
)

const (
	ringSize = 64
	bufBytes = 2048
	patience = 10 * time.Second
)

func testConfig() netstack.Config {
	return netstack.Config{
		GatewayMAC: gatewayMAC, MTU: 1500,
		IPv4:            netstack.IPv4{Enabled: true, Guest: guest4, Gateway: gateway4, PrefixLen: 24},
		IPv6:            netstack.IPv6{Enabled: true, Prefix: prefix6},
		DNS:             []netip.Addr{netip.MustParseAddr("192.0.2.53")},
		MapHostLoopback: addrmap.Pair{V4: loopback4},
	}
}

// rig is a worker and a driver of its rings. The driver allocates nothing once
// it is made.
type rig struct {
	t      testing.TB
	worker *netstack.Worker
	broken chan brokenRing

	mem            *virtqtest.Memory
	rx, tx         *virtqtest.Driver
	rxKick, txKick int
	call           int
	features       uint64

	txAddr uint64   // ringSize buffers, used in turn
	txNext int      // the next of them
	rxAt   []uint64 // by head: the buffer's address
	txBuf  []virtqtest.Buffer
	rxBuf  []virtqtest.Buffer
	frame  []byte                                // the last received, with its vnet header
	wrapRx func(netstack.RxRing) netstack.RxRing // of new rings, if not nil
	packed bool                                  // so are new rings
	log    *dirtylog.Log                         // of new rings, if not nil
}

type brokenRing struct {
	tx  bool
	err error
}

type eventfd int

func (e eventfd) Call() { e.signal() }

func (e eventfd) signal() { _, _ = unix.Write(int(e), []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func newWorker(t testing.TB, cfg netstack.Config) (*netstack.Worker, chan brokenRing) {
	t.Helper()
	broken := make(chan brokenRing, 10)
	w, err := netstack.NewWorker(cfg, func(tx bool, err error) { broken <- brokenRing{tx, err} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, broken
}

// newRig starts a worker and gives it rings in region, enabled.
func newRig(t testing.TB, cfg netstack.Config, features uint64, region guestmem.Region) *rig {
	t.Helper()
	w, broken := newWorker(t, cfg)
	r := &rig{t: t, worker: w, broken: broken, features: features}
	r.plug(region)
	w.Park(func() { r.attach(); r.enable(true, true) })
	return r
}

func heap() guestmem.Region { return virtqtest.HeapRegion(1<<20, 1<<20) }

// plug makes new rings, as a driver that has just started.
func (r *rig) plug(region guestmem.Region) {
	r.t.Helper()
	var err error
	r.mem, err = virtqtest.NewMemory(region)
	r.must(err)
	for _, d := range []**virtqtest.Driver{&r.rx, &r.tx} {
		*d, err = virtqtest.NewDriver(r.mem, virtqtest.Config{Size: ringSize, Packed: r.packed})
		r.must(err)
	}
	for _, fd := range []*int{&r.rxKick, &r.txKick, &r.call} {
		*fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		r.must(err)
		n := *fd
		r.t.Cleanup(func() { unix.Close(n) })
	}
	r.rxAt = make([]uint64, ringSize)
	r.txBuf, r.rxBuf = make([]virtqtest.Buffer, 1), make([]virtqtest.Buffer, 1)
	r.txAddr, err = r.mem.Alloc(ringSize*bufBytes, 64)
	r.must(err)
	r.frame = make([]byte, 0, 128<<10)
}

// fill gives the device n receive buffers of its own size.
func (r *rig) fill(n int) {
	r.t.Helper()
	for range n {
		addr, err := r.mem.Alloc(bufBytes, 64)
		r.must(err)
		r.give(addr)
	}
	r.kickRx()
}

func (r *rig) give(addr uint64) {
	r.rxBuf[0] = virtqtest.Buffer{Addr: addr, Len: bufBytes}
	head, err := r.rx.Add(nil, r.rxBuf)
	r.must(err)
	r.rxAt[head] = addr
}

func (r *rig) kickRx() {
	if r.rx.Kick() {
		eventfd(r.rxKick).signal()
	}
}

// attach gives the rings to the worker, which is parked.
func (r *rig) attach() {
	rx, err := virtqueue.New(r.queueConfig(r.rx, true))
	r.must(err)
	tx, err := virtqueue.New(r.queueConfig(r.tx, false))
	r.must(err)
	r.worker.SetFeatures(r.features)
	var ring netstack.RxRing = rx
	if r.wrapRx != nil {
		ring = r.wrapRx(rx)
	}
	r.must(r.worker.AttachRx(netstack.Rx{Ring: ring, KickFD: r.rxKick, Caller: eventfd(r.call), Mergeable: r.features&header.FeatureMrgRxBuf != 0}))
	r.must(r.worker.AttachTx(netstack.Tx{Ring: tx, KickFD: r.txKick, Caller: eventfd(r.call)}))
}

func (r *rig) queueConfig(d *virtqtest.Driver, writable bool) virtqueue.Config {
	c := d.QueueConfig(writable)
	if r.log != nil {
		desc, _, used := d.Addrs()
		c.Logging = virtqueue.Logging{Log: r.log, Ring: true, DescAddr: desc, UsedAddr: used}
	}
	return c
}

func (r *rig) enable(rx, tx bool) {
	r.worker.EnableRx(rx)
	r.worker.EnableTx(tx)
}

func (r *rig) must(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatal(err)
	}
}

// next returns where the next frame to send is to be written, vnet header in
// front, all zero.
func (r *rig) next() []byte {
	r.reapTx()
	b := r.mem.Bytes(r.txAddr+uint64(r.txNext)*bufBytes, bufBytes)
	clear(b)
	return b
}

// put puts the frame written to next on the ring, n bytes with its vnet header.
func (r *rig) put(n int) {
	r.txBuf[0] = virtqtest.Buffer{Addr: r.txAddr + uint64(r.txNext)*bufBytes, Len: uint32(n)}
	_, err := r.tx.Add(r.txBuf, nil)
	r.must(err)
	r.txNext = (r.txNext + 1) % ringSize
}

func (r *rig) kickTx() {
	if r.tx.Kick() {
		eventfd(r.txKick).signal()
	}
}

// send sends one frame, without vnet header.
func (r *rig) send(frame []byte) {
	r.put(header.VnetLen + copy(r.next()[header.VnetLen:], frame))
	r.kickTx()
}

func (r *rig) reapTx() {
	for {
		_, ok, err := r.tx.Reap()
		r.must(err)
		if !ok {
			return
		}
	}
}

// receive returns the next frame of the device, without vnet header, valid until
// the next call, or nil after timeout. Its buffers go back.
func (r *rig) receive(timeout time.Duration) []byte {
	missing := 0 // buffers of a frame that has begun
	for end := time.Now().Add(timeout); ; {
		u, ok, err := r.rx.Reap()
		r.must(err)
		if ok {
			addr := r.rxAt[u.Head]
			b := r.mem.Bytes(addr, uint64(u.Len))
			if missing == 0 {
				r.frame, missing = r.frame[:0], int(header.ParseVnet(b).NumBuffers)
			}
			r.frame = append(r.frame, b...)
			r.give(addr)
			r.kickRx()
			if missing--; missing == 0 {
				return r.frame[header.VnetLen:]
			}
			continue
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if !r.rx.EnableCalls() {
			r.waitCall(left)
		}
	}
}

func (r *rig) waitCall(timeout time.Duration) {
	fds := [1]unix.PollFd{{Fd: int32(r.call), Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds[:], int(timeout.Milliseconds())+1); n > 0 {
		var b [8]byte
		_, _ = unix.Read(r.call, b[:])
	}
}

// expect returns the next frame for which is says yes; others are passed over.
func (r *rig) expect(what string, is func(frame []byte) bool) []byte {
	r.t.Helper()
	for end := time.Now().Add(patience); ; {
		f := r.receive(time.Until(end))
		if f == nil {
			r.t.Fatalf("the guest got no %s", what)
		}
		if is(f) {
			return f
		}
	}
}

// askGateway is a request that every worker answers; isGateway knows the answer.
func askGateway() []byte {
	b := make([]byte, header.EthLen+28)
	n := header.PutEth(b, header.Broadcast, guestMAC, header.EtherTypeARP)
	n += copy(b[n:], []byte{0, 1, 8, 0, 6, 4, 0, 1})
	n += copy(b[n:], guestMAC[:])
	n += copy(b[n:], guest4.AsSlice())
	copy(b[n+6:], gateway4.AsSlice())
	return b
}

func isGateway(f []byte) bool {
	const sender = header.EthLen + 8
	return f[12] == 8 && f[13] == 6 && f[21] == 2 &&
		bytes.Equal(f[sender:sender+6], gatewayMAC[:]) && bytes.Equal(f[sender+6:sender+10], gateway4.AsSlice())
}
