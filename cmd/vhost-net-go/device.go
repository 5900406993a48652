package main

import (
	"encoding/binary"
	"errors"

	"github.com/hashicorp/go-hclog"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// Feature bits of virtio that concern rings (virtio 1.2, section 6).
const (
	featureIndirectDesc = 1 << 28
	featureEventIdx     = 1 << 29
	featureVersion1     = 1 << 32
	featureRingPacked   = 1 << 34
	featureInOrder      = 1 << 35
)

// offeredFeatures is what the driver may choose from. Receive offloads come
// with mergeable buffers only: without them a driver posts 64 KiB for each
// packet.
const offeredFeatures = featureVersion1 | featureEventIdx | featureIndirectDesc | featureRingPacked | featureInOrder |
	header.FeatureMrgRxBuf |
	header.FeatureCsum | header.FeatureGuestCsum |
	header.FeatureHostTSO4 | header.FeatureHostTSO6 | header.FeatureHostECN | header.FeatureHostUSO |
	header.FeatureGuestTSO4 | header.FeatureGuestTSO6 | header.FeatureGuestECN |
	header.FeatureGuestUSO4 | header.FeatureGuestUSO6 | header.FeatureGuestUFO

// featureMQ is VIRTIO_NET_F_MQ (virtio 1.2, section 5.1.3). A driver that is
// offered it without a control queue gives up. QEMU serves that queue itself;
// frontends that hand it to the backend must not see the bit.
const featureMQ = 1 << 22

// The virtqueues of a queue pair, as the driver counts them.
const (
	rxQueue = iota
	txQueue
	queuesPerPair
)

// device is the network device: it hands the rings of the frontend to the
// workers. It implements vhostuser.Device.
type device struct {
	workers *netstack.Group
	log     hclog.Logger
	mtu     uint16
	pairs   int // queue pairs at most
	// broken passes on a ring that the driver broke; set before frontends are
	// served.
	broken func(queue int, err error)
	acked  uint64
}

var _ vhostuser.Device = (*device)(nil)

// errNeedsVersion1 is for drivers of the legacy interface, whose header is
// shorter and whose byte order is the guest's.
var errNeedsVersion1 = errors.New("the driver does not know virtio 1.0 (VERSION_1), use a newer one or disable-legacy=on")

func (d *device) Features() uint64 {
	if d.pairs > 1 {
		return offeredFeatures | featureMQ
	}
	return offeredFeatures
}

func (d *device) NumQueues() int { return d.pairs * queuesPerPair }
func (d *device) Park(f func())  { d.workers.Park(f) }

func (d *device) SetFeatures(acked uint64) error {
	if acked&featureVersion1 == 0 {
		return errNeedsVersion1
	}
	d.acked = acked
	d.workers.SetFeatures(acked)
	return nil
}

func (d *device) StartQueue(i int, q *virtqueue.Queue, kick int, call vhostuser.Caller) {
	var err error
	if pair, kind := split(i); kind == rxQueue {
		mergeable := d.acked&header.FeatureMrgRxBuf != 0
		err = d.workers.AttachRx(pair, netstack.Rx{Ring: q, KickFD: kick, Caller: call, Mergeable: mergeable})
	} else {
		err = d.workers.AttachTx(pair, netstack.Tx{Ring: q, KickFD: kick, Caller: call})
	}
	if err != nil {
		d.log.Error("cannot start a ring", "queue", i, "error", err)
	}
}

// split returns which virtqueue of which queue pair virtqueue i is.
func split(i int) (pair, kind int) { return i / queuesPerPair, i % queuesPerPair }

func (d *device) StopQueue(i int) {
	if pair, kind := split(i); kind == rxQueue {
		d.workers.DetachRx(pair)
	} else {
		d.workers.DetachTx(pair)
	}
}

func (d *device) EnableQueue(i int, on bool) {
	if pair, kind := split(i); kind == rxQueue {
		d.workers.EnableRx(pair, on)
	} else {
		d.workers.EnableTx(pair, on)
	}
}

// ConfigSpace is struct virtio_net_config (virtio 1.2, section 5.1.4): no MAC
// address (the frontend gives the guest one), link up, how many queue pairs there
// are, the MTU.
func (d *device) ConfigSpace() []byte {
	var b [12]byte
	binary.LittleEndian.PutUint16(b[6:], 1) // VIRTIO_NET_S_LINK_UP
	binary.LittleEndian.PutUint16(b[8:], uint16(d.pairs))
	binary.LittleEndian.PutUint16(b[10:], d.mtu)
	return b[:]
}

// SetMTU is what the frontend tells the driver; the guest's own interface may
// have any MTU up to ours.
func (d *device) SetMTU(mtu uint16) error {
	d.log.Debug("the frontend tells the driver an MTU", "mtu", mtu)
	return nil
}

// SendRARP needs no answer of ours: there is no switch to tell.
func (d *device) SendRARP(mac [6]byte) { d.log.Debug("guest moved here", "mac", header.MAC(mac)) }

func (d *device) Reset() { d.workers.ForgetGuest() }

// ringBroken is called by a worker.
func (d *device) ringBroken(pair int, tx bool, err error) {
	q := rxQueue
	if tx {
		q = txQueue
	}
	d.broken(pair*queuesPerPair+q, err)
}
