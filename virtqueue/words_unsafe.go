//go:build amd64 || arm64

package virtqueue

import (
	"sync/atomic"
	"unsafe"
)

// The words of a split ring that one side writes while the other reads. The
// ring's indices are 16 bits wide and Go has no 16-bit atomics, so:
//
//   - avail.idx is read with the aligned 32-bit word around it. Usually that is
//     {flags, idx}; if the ring starts at an address that is 2 modulo 4, which
//     the specification allows, it is {idx, ring[0]}. Both lie in the ring.
//   - used.flags and used.idx are one aligned 32-bit word that only the device
//     writes: one store changes either.
//   - the event words are loaded and stored as 16 bits. avail_event must never
//     be stored with a wider word: the two bytes behind it are not ours.
//
// The build constraint is about byte order: the upper half of the word is the
// second field on little-endian machines only.
type splitWords struct {
	avail      *uint32 // the word that holds avail.idx
	availShift uint8   // where in it: 16 or 0
	availFlags *uint16
	usedEvent  *uint16
	used       *uint32 // {flags, idx}
	availEvent *uint16
}

func (w *splitWords) init(avail, used []byte, size uint16) {
	a, u := unsafe.Pointer(unsafe.SliceData(avail)), unsafe.Pointer(unsafe.SliceData(used))
	w.avail, w.availShift = (*uint32)(a), 16
	if !aligned(avail, 4) {
		w.avail, w.availShift = (*uint32)(unsafe.Add(a, 2)), 0
	}
	w.availFlags = (*uint16)(a)
	w.usedEvent = (*uint16)(unsafe.Add(a, availHeader+availSlot*int(size)))
	w.used = (*uint32)(u)
	w.availEvent = (*uint16)(unsafe.Add(u, usedHeader+usedSlot*int(size)))
}

// availIdx loads avail.idx; what the driver wrote before it is visible after.
func (w *splitWords) availIdx() uint16 {
	return uint16(atomic.LoadUint32(w.avail) >> w.availShift)
}

// setUsed stores used.flags and used.idx; everything written before is visible
// to whoever sees them.
func (w *splitWords) setUsed(flags, idx uint16) {
	atomic.StoreUint32(w.used, uint32(flags)|uint32(idx)<<16)
}

func usedIdxOf(used []byte) uint16 {
	return uint16(atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(used)))) >> 16)
}

func aligned(b []byte, align uintptr) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%align == 0
}
