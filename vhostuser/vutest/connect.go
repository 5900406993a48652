package vutest

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// Connect negotiates as the frontend does when it has its connection, up to the
// point where it waits for the driver. It sends only what the backend offers.
func (f *Frontend) Connect() error {
	steps := []func() error{f.own, f.getFeatures, f.negotiate, f.ask, f.reverse}
	if f.Style == QEMU {
		steps = []func() error{f.getFeatures, f.negotiate, f.ask, f.reverse, f.own, f.getFeatures}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("vutest: connect as %v: %w", f.Style, err)
		}
	}
	return nil
}

func (f *Frontend) own() error { return f.Send(wire.SetOwner, 0, nil) }

func (f *Frontend) getFeatures() (err error) {
	f.Offered, err = f.GetU64(wire.GetFeatures)
	return err
}

// negotiate agrees on the protocol features.
func (f *Frontend) negotiate() (err error) {
	if f.Offered&wire.FeatureProtocol == 0 {
		return nil
	}
	if f.OfferedProtocol, err = f.GetU64(wire.GetProtocolFeatures); err != nil {
		return err
	}
	f.Protocol = f.OfferedProtocol & f.Style.protocol()
	v := wire.U64(f.Protocol)
	if f.Style == UML && f.Protocol&wire.ProtocolReplyAck != 0 {
		return f.DoAck(wire.SetProtocolFeatures, &v)
	}
	return f.Send(wire.SetProtocolFeatures, 0, &v)
}

// ask learns the limits of the backend.
func (f *Frontend) ask() (err error) {
	if f.Protocol&wire.ProtocolMQ != 0 && f.Style != DPDK {
		if f.QueueNum, err = f.GetU64(wire.GetQueueNum); err != nil {
			return err
		}
	}
	if f.Protocol&wire.ProtocolConfigureMemSlots != 0 {
		f.MemSlots, err = f.GetU64(wire.GetMaxMemSlots)
	}
	return err
}

// reverse gives the backend a socket for requests of its own. The other end is
// closed: a backend that uses the socket finds nobody there.
func (f *Frontend) reverse() error {
	if f.Protocol&wire.ProtocolBackendReq == 0 {
		return nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socketpair: %w", err)
	}
	err = f.Do(wire.SetBackendReqFD, nil, fds[0])
	return errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
}

// SetMemTable shares m as a whole.
func (f *Frontend) SetMemTable(m *Memory) error {
	return f.Do(wire.SetMemTable, &wire.MemTable{Regions: m.Regions()}, m.FDs()...)
}

// AddMemRegion shares region i of m.
func (f *Frontend) AddMemRegion(m *Memory, i int) error {
	return f.Do(wire.AddMemReg, &wire.SingleRegion{Region: m.Regions()[i]}, m.FDs()[i])
}

// RemMemRegion takes region i of m back.
func (f *Frontend) RemMemRegion(m *Memory, i int) error {
	return f.Do(wire.RemMemReg, &wire.SingleRegion{Region: m.Regions()[i]})
}

// share shares the guest's memory once per connection, in the way negotiated.
func (f *Frontend) share(m *Memory) error {
	if f.shared {
		return nil
	}
	f.shared = true
	if f.Protocol&wire.ProtocolConfigureMemSlots == 0 || f.Style == CloudHypervisor {
		return f.SetMemTable(m)
	}
	for i := range m.Regions() {
		if err := f.AddMemRegion(m, i); err != nil {
			return err
		}
	}
	return nil
}
