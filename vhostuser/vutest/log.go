package vutest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// PageSize is what one bit of a Log stands for.
const PageSize = 4096

// Log is a log of dirty pages, in a memfd that can be shared with a backend.
type Log struct {
	FD     int
	bitmap []byte
	words  []atomic.Uint32 // the same memory
}

// NewLog makes a log that covers the memory of m. As QEMU does, it forbids to
// change the size of the file.
func NewLog(m *Memory) (*Log, error) {
	var end uint64
	for _, r := range m.regions {
		end = max(end, r.GuestAddr+r.Size)
	}
	const unit = PageSize * 64 // bytes of memory to a word of the log, QEMU's VHOST_LOG_CHUNK
	size := int((end + unit - 1) / unit * 8)
	l := &Log{FD: -1}
	var err error
	if l.FD, err = unix.MemfdCreate("guest-log", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, fmt.Errorf("vutest: create memfd: %w", err)
	}
	if err := unix.Ftruncate(l.FD, int64(size)); err != nil {
		return nil, errors.Join(fmt.Errorf("vutest: size memfd: %w", err), l.Close())
	}
	if l.bitmap, err = unix.Mmap(l.FD, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("vutest: map memfd: %w", err), l.Close())
	}
	_, err = unix.FcntlInt(uintptr(l.FD), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("vutest: seal memfd: %w", err), l.Close())
	}
	l.words = wordsOf(l.bitmap)
	return l, nil
}

// Size returns the length of the log in bytes.
func (l *Log) Size() uint64 { return uint64(len(l.bitmap)) }

// Take adds the marked pages (guest address / PageSize) to pages and clears their
// bits, while the backend may mark others.
func (l *Log) Take(pages map[uint64]bool) {
	for i := range l.words {
		for bits, b := l.words[i].Swap(0), uint64(0); bits != 0; bits, b = bits>>1, b+1 {
			if bits&1 != 0 {
				pages[uint64(i)*32+b] = true
			}
		}
	}
}

// Close unmaps the log and closes its file.
func (l *Log) Close() error {
	var errs []error
	if l.bitmap != nil {
		errs = append(errs, unix.Munmap(l.bitmap))
	}
	if l.FD >= 0 {
		errs = append(errs, unix.Close(l.FD))
	}
	l.FD, l.bitmap, l.words = -1, nil, nil
	return errors.Join(errs...)
}

// SetLogBase shares l as the log from now on.
func (f *Frontend) SetLogBase(l *Log) error {
	var answer wire.U64
	m := &wire.Log{Size: l.Size()}
	if err := f.Send(wire.SetLogBase, 0, m, l.FD); err != nil {
		return err
	}
	return f.receive(wire.SetLogBase, &answer)
}

// StartLog makes the backend mark in l what it writes to the guest of the last
// Start, while that is running.
func (f *Frontend) StartLog(l *Log) error {
	return run(
		func() error { return f.SetLogBase(l) },
		func() error { return f.setLogging(true) },
	)
}

// StopLog ends it.
func (f *Frontend) StopLog() error { return f.setLogging(false) }

func (f *Frontend) setLogging(on bool) error {
	if f.guest == nil {
		return errors.New("vutest: log before start")
	}
	features := f.acked
	if on {
		features |= wire.FeatureLogAll
	}
	return run(
		func() error { return f.SetFeatures(features) },
		f.guest.each(func(q *Queue) error {
			q.Logged = on
			return f.SetAddr(q)
		}),
	)
}
