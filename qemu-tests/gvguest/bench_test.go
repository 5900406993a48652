package gvguest_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Feature bits of virtio that concern rings.
const (
	featureIndirect = 1 << 28
	featureEventIdx = 1 << 29
	featureVersion1 = 1 << 32
)

const (
	tso = header.FeatureCsum | header.FeatureHostTSO4 | header.FeatureHostTSO6 |
		header.FeatureGuestCsum | header.FeatureGuestTSO4 | header.FeatureGuestTSO6
	mtu = 1500
)

// setup is a way to use the device.
type setup struct {
	name       string
	features   uint64
	ringSize   uint16
	rxBufBytes int
	memBytes   uint64
}

// linuxSetup is what a Linux guest does with our features.
var linuxSetup = setup{"linux", featureVersion1 | featureEventIdx | featureIndirect | header.FeatureMrgRxBuf | tso, 256, 1536, 16 << 20}

func setups() []setup {
	const v1 = featureVersion1
	return []setup{
		linuxSetup,
		{"nothing negotiated", v1, 64, mtu + header.EthLen + header.VnetLen, 16 << 20},
		{"checksums only", v1 | featureEventIdx | header.FeatureCsum | header.FeatureGuestCsum, 64, 2048, 16 << 20},
		{"big buffers", v1 | featureIndirect | tso, 32, 65536 + 26, 16 << 20},
		{"tiny buffers", v1 | featureEventIdx | header.FeatureMrgRxBuf | tso, 128, 256, 16 << 20},
		{"no mergeable segments", v1 | header.FeatureMrgRxBuf | header.FeatureGuestCsum, 16, 700, 16 << 20},
	}
}

// Addresses. The guest reaches the host's loopback under host4 and host6.
var (
	guest4   = netip.MustParsePrefix("10.0.2.15/24")
	guest6   = netip.MustParsePrefix("2001:db8:1::15/64")
	gateway4 = netip.MustParseAddr("10.0.2.2")
	host4    = netip.MustParseAddr("192.0.2.1")
	host6    = netip.MustParseAddr("2001:db8:ffff::1")
)

var gatewayMAC = header.MAC{0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55}

func networkConfig() netstack.Config {
	return netstack.Config{
		GatewayMAC: gatewayMAC, MTU: mtu,
		IPv4:            netstack.IPv4{Enabled: true, Guest: guest4.Addr(), Gateway: gateway4, PrefixLen: guest4.Bits()},
		IPv6:            netstack.IPv6{Enabled: true, Guest: guest6.Addr(), Prefix: guest6.Masked()},
		MapHostLoopback: addrmap.Pair{V4: host4, V6: host6},
	}
}

// gateway6 is the link-local address that the worker forms from its MAC.
var gateway6 = netip.MustParseAddr("fe80::9855:9aff:fe55:9a55")

// bench is a worker and the guest that it serves.
type bench struct {
	*testing.T
	setup  setup
	worker *netstack.Worker
	guest  *gvguest.Guest
	rings  *gvguest.Rings
	nic    gvguest.NICConfig
	system func(*gvguest.Config)

	broken chan error
	before usage
}

// newBench starts a worker; boot is to follow.
func newBench(t *testing.T, s setup, change ...func(*netstack.Config)) *bench {
	t.Helper()
	b := &bench{T: t, setup: s, broken: make(chan error, 100), before: measure(t)}
	cfg := networkConfig()
	for _, f := range change {
		f(&cfg)
	}
	var err error
	b.worker, err = netstack.NewWorker(cfg, func(_ bool, err error) { b.broken <- err })
	b.must(err)
	b.nic = gvguest.NICConfig{Features: s.features, MTU: cfg.MTU, RxBufBytes: s.rxBufBytes, Seed: uint64(time.Now().UnixNano())}
	t.Cleanup(b.close)
	return b
}

// close ends all, and checks that nothing stays.
func (b *bench) close() {
	b.shutdown()
	b.eventually("flows are gone", func() bool { return b.worker.Snapshot().TCPFlows == 0 })
	b.worker.Close()
	select {
	case err := <-b.broken:
		b.Errorf("ring broken: %v", err)
	default:
	}
	checkUsage(b.T, b.before)
	if b.Failed() {
		b.Logf("seed of impairments: %d", b.nic.Seed)
	}
}

// boot starts a guest with rings of its own and connects it.
func (b *bench) boot() *bench {
	b.Helper()
	b.newRings()
	b.start()
	b.worker.Park(b.attach)
	return b
}

func (b *bench) newRings() {
	b.Helper()
	q := virtqtest.Config{
		Size: b.setup.ringSize, EventIdx: b.setup.features&featureEventIdx != 0, Indirect: b.setup.features&featureIndirect != 0,
	}
	var err error
	b.rings, err = gvguest.NewRings(b.setup.memBytes, q, q)
	b.must(err)
}

// start starts a guest on the rings.
func (b *bench) start() {
	b.Helper()
	cfg := gvguest.Config{
		NIC: b.nic, Addr4: guest4, Addr6: guest6, Gateway4: gateway4, Gateway6: gateway6,
	}
	if b.system != nil {
		b.system(&cfg)
	}
	var err error
	b.guest, err = gvguest.New(b.rings, cfg)
	b.must(err)
}

// attach gives the rings to the worker, which is parked.
func (b *bench) attach() {
	rx, err := virtqueue.New(b.rings.Rx.QueueConfig(true))
	b.must(err)
	tx, err := virtqueue.New(b.rings.Tx.QueueConfig(false))
	b.must(err)
	b.worker.SetFeatures(b.setup.features)
	mergeable := b.setup.features&header.FeatureMrgRxBuf != 0
	b.must(b.worker.AttachRx(netstack.Rx{Ring: rx, KickFD: b.rings.Rx.KickFD, Caller: b.rings.Rx, Mergeable: mergeable}))
	b.must(b.worker.AttachTx(netstack.Tx{Ring: tx, KickFD: b.rings.Tx.KickFD, Caller: b.rings.Tx}))
	b.worker.EnableRx(true)
	b.worker.EnableTx(true)
}

// detach takes the rings away from the worker.
func (b *bench) detach() {
	b.worker.Park(func() {
		b.worker.DetachRx()
		b.worker.DetachTx()
	})
}

// shutdown ends the guest, if there is one.
func (b *bench) shutdown() {
	if b.guest == nil {
		return
	}
	b.guest.Close()
	b.unplug()
}

// unplug forgets a guest that was closed or has crashed.
func (b *bench) unplug() {
	if err := b.guest.NIC.Err(); err != nil {
		b.Error(err)
	}
	b.detach()
	b.worker.Park(b.worker.ForgetGuest)
	if err := b.rings.Close(); err != nil {
		b.Error(err)
	}
	b.guest = nil
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// patience is how long something may take that takes no time.
const patience = 20 * time.Second

func (b *bench) eventually(what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.Errorf("in vain: %s", what)
			b.dump()
			return
		}
	}
}

// dump logs the state of a test that hangs.
func (b *bench) dump() {
	b.Helper()
	for range 2 {
		s := b.worker.Snapshot()
		b.Logf("worker: %+v\nqueue: %+v\nTCP: %+v, %d flows", s.Counters, s.Queue, s.TCP, s.TCPFlows)
		if b.guest != nil {
			for _, r := range []*gvguest.Ring{b.rings.Rx, b.rings.Tx} {
				flags, used := r.Ring().Used()
				b.Logf("ring: used %d flags %d avail event %d", used, flags, r.Ring().AvailEvent())
			}
			b.Logf("guest: %d segments retransmitted, %d received", b.guest.Stack.Stats().TCP.Retransmits.Value(), b.guest.NIC.Received())
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// family is an address family to test with.
type family struct {
	name     string
	loopback netip.Addr
	seen     netip.Addr // as the guest sees the loopback
}

var (
	ipv4Family = family{"IPv4", netip.MustParseAddr("127.0.0.1"), host4}
	ipv6Family = family{"IPv6", netip.IPv6Loopback(), host6}
)

func families() []family { return []family{ipv4Family, ipv6Family} }

// serve runs handle for each connection to a server on the host's loopback and
// returns where the guest finds it. It ends with the test, or earlier by stop.
func (b *bench) serve(f family, handle func(*net.TCPConn)) (addr netip.AddrPort, stop func()) {
	b.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.loopback, 0)))
	b.must(err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	stop = sync.OnceFunc(func() {
		l.Close()
		all.Wait()
	})
	b.Cleanup(stop)
	return netip.AddrPortFrom(f.seen, l.Addr().(*net.TCPAddr).AddrPort().Port()), stop
}

// dial connects the guest to addr.
func (b *bench) dial(addr netip.AddrPort) *gvguest.Conn {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	c, err := b.guest.Dial(ctx, addr, 0)
	b.must(err)
	return c
}

// usage counts what a process can leak.
type usage struct{ fds, goroutines int }

func measure(t testing.TB) usage {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return usage{len(fds), runtime.NumGoroutine()}
}

// checkUsage fails the test unless usage comes back to before.
func checkUsage(t testing.TB, before usage) {
	t.Helper()
	var now usage
	for range 500 {
		if now = measure(t); now.fds <= before.fds && now.goroutines <= before.goroutines {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("usage is %+v, was %+v before", now, before)
	if now.goroutines > before.goroutines {
		buf := make([]byte, 1<<16)
		t.Logf("%s", buf[:runtime.Stack(buf, true)])
	}
}
