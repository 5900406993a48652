package gvguest_test

import (
	"errors"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// device hands the rings of a frontend to a worker, as the daemon does.
type device struct {
	worker *netstack.Worker
	offers uint64
	acked  uint64
	failed error // the first ring that could not be attached
}

var _ vhostuser.Device = (*device)(nil)

func (d *device) Features() uint64 { return d.offers }
func (d *device) NumQueues() int   { return 2 }
func (d *device) Park(f func())    { d.worker.Park(f) }

func (d *device) SetFeatures(acked uint64) error {
	if acked&featureVersion1 == 0 {
		return errors.New("no VERSION_1")
	}
	d.acked = acked
	d.worker.SetFeatures(acked)
	return nil
}

func (d *device) StartQueue(i int, q *virtqueue.Queue, kick int, call vhostuser.Caller) {
	var err error
	if i == 0 {
		mergeable := d.acked&header.FeatureMrgRxBuf != 0
		err = d.worker.AttachRx(netstack.Rx{Ring: q, KickFD: kick, Caller: call, Mergeable: mergeable})
	} else {
		err = d.worker.AttachTx(netstack.Tx{Ring: q, KickFD: kick, Caller: call})
	}
	if err != nil && d.failed == nil {
		d.failed = err
	}
}

func (d *device) StopQueue(i int) {
	if i == 0 {
		d.worker.DetachRx()
	} else {
		d.worker.DetachTx()
	}
}

func (d *device) EnableQueue(i int, on bool) {
	if i == 0 {
		d.worker.EnableRx(on)
	} else {
		d.worker.EnableTx(on)
	}
}

func (*device) ConfigSpace() []byte { return make([]byte, 12) }
func (*device) SetMTU(uint16) error { return nil }
func (*device) SendRARP([6]byte)    {}
func (d *device) Reset()            { d.worker.ForgetGuest() }
