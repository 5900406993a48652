package vhostuser

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/dirtylog"
)

// dirtyLog is the log of dirty pages that the frontend has shared, mapped. It is
// in use while the feature LOG_ALL is in force.
type dirtyLog struct {
	log     *dirtylog.Log // nil: none
	size    uint64        // bytes
	mapping []byte
}

// mapLog maps the log that l describes from fd, which stays the caller's.
func mapLog(l wire.Log, fd int) (dirtyLog, error) {
	mapping, skip, err := mapShared(fd, l.Offset, l.Size)
	if err != nil {
		return dirtyLog{}, err
	}
	log, err := dirtylog.New(mapping[skip:][:l.Size])
	if err != nil {
		_ = unix.Munmap(mapping)
		return dirtyLog{}, err
	}
	return dirtyLog{log, l.Size, mapping}, nil
}

// unmap unmaps the log. Nothing may use it any more.
func (d *dirtyLog) unmap() {
	if d.mapping != nil {
		_ = unix.Munmap(d.mapping) // fails only for a range that was never mapped
	}
	*d = dirtyLog{}
}

// setLogBase replaces the log. What was marked in the old one stays there;
// cloud-hypervisor sends a new one to read the old one in peace.
func (s *session) setLogBase(m *wire.Message) ([]byte, error) {
	var l wire.Log
	if err := wire.Decode(m.Payload, &l); err != nil {
		return nil, err
	}
	next, err := mapLog(l, m.FDs[0])
	if err != nil {
		return nil, fmt.Errorf("dirty log: %w", err)
	}
	s.relog(s.rings, func() {
		s.dirty.unmap()
		s.dirty = next
	})
	return u64(0)
}

// setLogFD is told a descriptor that may be signalled when the log has changed.
// Frontends read the log when they need it, so it is not kept.
func (s *session) setLogFD(*wire.Message) ([]byte, error) { return nil, nil }

// relog makes a change of what is logged of rings, or where. They are taken from the
// device if that concerns them, and go on with the new state. What the device
// writes when it lets go of them is still logged in the old way.
func (s *session) relog(rings []ring, change func()) {
	s.park(func() {
		logged := s.logged()
		if logged {
			s.suspendAll(rings)
		}
		change()
		if !logged && s.logged() {
			s.suspendAll(rings)
		}
		s.startReady()
	})
}

// logged reports whether written pages are to be logged.
func (s *session) logged() bool { return s.features&wire.FeatureLogAll != 0 }

// mayWrite reports whether guest memory may be written: not while the log is
// wanted and not there. QEMU starts rings before it shares the log when a driver
// comes up in the middle of a migration.
func (s *session) mayWrite() bool {
	return !s.logged() || s.dirty.log != nil
}

// logging says how the pages that are written through ring r are marked. It is an
// error if the log is too small: what is not marked would be lost in a migration.
//
// The used ring of a split ring is marked at the address that the frontend gives
// for that. In a packed ring that is the address of one of its parts: the device
// event suppression (QEMU), or the descriptors (DPDK as a backend takes it so).
// Both are marked where they are.
func (s *session) logging(r *ring, cfg *virtqueue.Config) (l virtqueue.Logging, err error) {
	if !s.logged() {
		return l, nil
	}
	if end := s.mem.end(); !s.dirty.log.Covers(0, end) {
		return l, fmt.Errorf("dirty log of %d bytes is too small for guest memory up to address %#x", s.dirty.size, end)
	}
	l.Log, l.Ring = s.dirty.log, r.addr.Flags&wire.VringLog != 0
	if !l.Ring {
		return l, nil
	}
	if cfg.Packed {
		if l.DescAddr, err = s.mem.gm.UserToGuest(r.addr.Desc); err != nil {
			return l, err
		}
		l.UsedAddr, err = s.mem.gm.UserToGuest(r.addr.Used)
		return l, err
	}
	// This one need not be in memory.
	if l.UsedAddr = r.addr.Log; !l.Log.Covers(l.UsedAddr, uint64(len(cfg.Used))) {
		return l, fmt.Errorf("dirty log of %d bytes is too small for the used ring at address %#x", s.dirty.size, l.UsedAddr)
	}
	return l, nil
}
