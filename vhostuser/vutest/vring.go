package vutest

import (
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// SetFeatures acknowledges virtio features.
func (f *Frontend) SetFeatures(acked uint64) error {
	v := wire.U64(acked)
	return f.Do(wire.SetFeatures, &v)
}

// SetNum tells the size of q.
func (f *Frontend) SetNum(q *Queue) error {
	return f.Do(wire.SetVringNum, &wire.VringState{Index: uint32(q.Index), Num: uint32(q.Size())})
}

// SetBase tells the index at which q goes on. DPDK knows only the driver's half of
// a packed ring's, UML nothing but 0.
func (f *Frontend) SetBase(q *Queue) error {
	base := q.Base
	switch {
	case q.Packed() == nil:
	case f.Style == DPDK:
		base &= 0xffff
	case f.Style == UML:
		base = 0
	}
	return f.Do(wire.SetVringBase, &wire.VringState{Index: uint32(q.Index), Num: base})
}

// SetAddr tells where q lies.
func (f *Frontend) SetAddr(q *Queue) error {
	a := q.Addr()
	return f.Do(wire.SetVringAddr, &a)
}

// SetKick hands over the descriptor that the driver signals, which starts q.
func (f *Frontend) SetKick(q *Queue) error { return f.setFD(wire.SetVringKick, q, q.KickFD) }

// SetCall hands over the descriptor that the device signals.
func (f *Frontend) SetCall(q *Queue) error { return f.setFD(wire.SetVringCall, q, q.CallFD) }

// SetErr hands over the descriptor that the device signals when q is broken.
func (f *Frontend) SetErr(q *Queue) error { return f.setFD(wire.SetVringErr, q, q.ErrFD) }

// setFD sends one of the requests that carry a descriptor; -1: none.
func (f *Frontend) setFD(req wire.Request, q *Queue, fd int) error {
	v := wire.U64(q.Index)
	if fd < 0 {
		v |= wire.VringNoFD
		return f.Do(req, &v)
	}
	return f.Do(req, &v, fd)
}

// EnableQueue enables q, or disables it if it is Off.
func (f *Frontend) EnableQueue(q *Queue) error {
	st := &wire.VringState{Index: uint32(q.Index), Num: 1}
	if q.Off {
		st.Num = 0
	}
	return f.Do(wire.SetVringEnable, st)
}

// DisableQueue disables q.
func (f *Frontend) DisableQueue(q *Queue) error {
	return f.Do(wire.SetVringEnable, &wire.VringState{Index: uint32(q.Index)})
}

// GetBase stops q and keeps the index at which it goes on.
func (f *Frontend) GetBase(q *Queue) error {
	var st wire.VringState
	if err := f.Get(wire.GetVringBase, &wire.VringState{Index: uint32(q.Index)}, &st); err != nil {
		return err
	}
	if st.Index != uint32(q.Index) || st.Num > 0xffff && q.Packed() == nil {
		return fmt.Errorf("GET_VRING_BASE of queue %d answered %+v", q.Index, st)
	}
	q.Base = st.Num
	return nil
}
