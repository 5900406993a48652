package gvguest_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

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
	rx, tx *virtqueue.Queue // their other side, which the worker has
	nic    gvguest.NICConfig
	system func(*gvguest.Config)
	wrap   func(netstack.RxRing, netstack.TxRing) (netstack.RxRing, netstack.TxRing) // may be nil

	tap    *tap
	ports  map[family]uint16 // of the host, that lead to guestPort
	before usage
}

// newBench starts a worker; boot is to follow. No ring may break.
func newBench(t *testing.T, s setup, change ...func(*netstack.Config)) *bench {
	t.Helper()
	broken := func(tx bool, err error) { t.Errorf("ring broken (transmit %v): %v", tx, err) }
	return newBenchWith(t, s, broken, change...)
}

func newBenchWith(t *testing.T, s setup, broken func(tx bool, err error), change ...func(*netstack.Config)) *bench {
	t.Helper()
	b := &bench{T: t, setup: s, before: measure(t)}
	cfg := networkConfig()
	b.ports = map[family]uint16{}
	for _, f := range families() {
		b.ports[f] = freePort(t, f)
		cfg.Forwards = append(cfg.Forwards, forward.Rule{
			Proto: forward.TCP, ListenAddr: f.loopback, FirstPort: b.ports[f], LastPort: b.ports[f], TargetFirstPort: guestPort,
		})
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	b.worker, err = netstack.NewWorker(cfg, broken)
	b.must(err)
	b.nic = gvguest.NICConfig{Features: s.features, MTU: cfg.MTU, RxBufBytes: s.rxBufBytes, Seed: uint64(time.Now().UnixNano())}
	b.tap = new(tap)
	b.nic.Tap = b.tap.frame
	t.Cleanup(b.close)
	return b
}

// in returns the bench for use in a subtest.
func (b *bench) in(t *testing.T) *bench {
	sub := *b
	sub.T = t
	return &sub
}

// close ends all, and checks that nothing stays.
func (b *bench) close() {
	b.eventually("flows are gone", func() bool { return b.worker.Snapshot().TCPFlows == 0 })
	b.shutdown()
	b.worker.Close()
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

// attach gives new rings to the worker, which is parked.
func (b *bench) attach() { b.attachAt(0, 0) }

// attachAt gives rings to the worker that go on where they were left.
func (b *bench) attachAt(rxAt, txAt uint32) {
	rxCfg, txCfg := b.rings.Rx.QueueConfig(true), b.rings.Tx.QueueConfig(false)
	rxCfg.NextAvail, txCfg.NextAvail = rxAt, txAt
	rx, err := virtqueue.New(rxCfg)
	b.must(err)
	tx, err := virtqueue.New(txCfg)
	b.must(err)
	b.rx, b.tx = rx, tx
	var toGuest netstack.RxRing = rx
	var fromGuest netstack.TxRing = tx
	if b.wrap != nil {
		toGuest, fromGuest = b.wrap(rx, tx)
	}
	b.worker.SetFeatures(b.setup.features)
	mergeable := b.setup.features&header.FeatureMrgRxBuf != 0
	b.must(b.worker.AttachRx(netstack.Rx{Ring: toGuest, KickFD: b.rings.Rx.KickFD, Caller: b.rings.Rx, Mergeable: mergeable}))
	b.must(b.worker.AttachTx(netstack.Tx{Ring: fromGuest, KickFD: b.rings.Tx.KickFD, Caller: b.rings.Tx}))
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
const patience = 20 * time.Second * slowness

// scaled is less of something where the race detector makes all slow, or where
// tests are to be short.
func scaled(n int) int {
	if testing.Short() {
		n /= 4
	}
	return max(n/(slowness*slowness), 1)
}

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
