//go:build amd64 || arm64

package virtqtest

import (
	"sync/atomic"
	"unsafe"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/internal/order"
)

// ringWords are the words of a ring that the two sides access at the same time.
// The device's ends are in words_unsafe.go of package virtqueue.
type ringWords struct {
	fence      order.Fence
	avail      *uint32 // {flags, idx}, nil if not aligned
	availFlags *uint16
	availIdx   *uint16
	usedEvent  *uint16
	used       *uint32 // {flags, idx}
	availEvent *uint16
}

func (w *ringWords) init(avail, used []byte, size uint16) {
	a, u := unsafe.Pointer(unsafe.SliceData(avail)), unsafe.Pointer(unsafe.SliceData(used))
	if uintptr(a)%4 == 0 {
		w.avail = (*uint32)(a)
	}
	w.availFlags, w.availIdx = (*uint16)(a), (*uint16)(unsafe.Add(a, 2))
	w.usedEvent = (*uint16)(unsafe.Add(a, availHeader+availSlot*int(size)))
	w.used = (*uint32)(u)
	w.availEvent = (*uint16)(unsafe.Add(u, usedHeader+usedSlot*int(size)))
}

func (w *ringWords) setAvail(flags, idx uint16) {
	if w.avail != nil {
		atomic.StoreUint32(w.avail, uint32(flags)|uint32(idx)<<16)
		return
	}
	order.Store16(w.availFlags, flags)
	w.fence.Full()
	order.Store16(w.availIdx, idx)
	w.fence.Full()
}

func (w *ringWords) setUsedEvent(idx uint16) { order.Store16(w.usedEvent, idx) }

func (w *ringWords) availEventIdx() uint16 { return order.Load16(w.availEvent) }

func (w *ringWords) usedWord() (flags, idx uint16) {
	v := atomic.LoadUint32(w.used)
	return uint16(v), uint16(v >> 16)
}

func (w *ringWords) setUsedIdx(idx uint16) { atomic.StoreUint32(w.used, uint32(idx)<<16) }
