package virtqueue

import (
	"sync/atomic"
	"unsafe"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/internal/order"
)

// The words of a packed ring that one side writes while the other reads. Id and
// flags of a descriptor are one aligned 32-bit word, and so is an event
// suppression area. As in words_unsafe.go, this is about little-endian machines.
type packedWords struct {
	desc        *byte
	driverEvent *uint32
	deviceEvent *uint32
	deviceFlags *uint16 // the upper half of deviceEvent
}

func (w *packedWords) init(desc, driver, device []byte) {
	d := unsafe.Pointer(unsafe.SliceData(device))
	*w = packedWords{
		desc:        unsafe.SliceData(desc),
		driverEvent: (*uint32)(unsafe.Pointer(unsafe.SliceData(driver))),
		deviceEvent: (*uint32)(d),
		deviceFlags: (*uint16)(unsafe.Add(d, 2)),
	}
}

// mark is the word with id and flags of the descriptor in slot, which must be in
// the ring.
func (w *packedWords) mark(slot uint32) *uint32 {
	return (*uint32)(unsafe.Add(unsafe.Pointer(w.desc), uintptr(slot)*descBytes+12))
}

// flags loads the flags of a descriptor; what the driver wrote before is visible
// after.
func (w *packedWords) flags(slot uint32) uint16 {
	return uint16(atomic.LoadUint32(w.mark(slot)) >> 16)
}

// idFlags is flags, and the buffer ID from the same load.
func (w *packedWords) idFlags(slot uint32) (id, flags uint16) {
	v := atomic.LoadUint32(w.mark(slot))
	return uint16(v), uint16(v >> 16)
}

// setLen stores the length of a used descriptor that the driver may be polling.
func (w *packedWords) setLen(slot, n uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Add(unsafe.Pointer(w.desc), uintptr(slot)*descBytes+8)), n)
}

// length loads the length of a descriptor that is the device's.
func (w *packedWords) length(slot uint32) uint32 { return uint32(*w.second(slot)) }

// second is the half of a descriptor that has length, ID and flags.
func (w *packedWords) second(slot uint32) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(w.desc), uintptr(slot)*descBytes+8))
}

// setRest stores id and flags of a descriptor that the driver skips.
func (w *packedWords) setRest(slot uint32, id, flags uint16) {
	*w.mark(slot) = uint32(id) | uint32(flags)<<16
}

// setUsed stores a used descriptor that the driver does not look at yet.
func (w *packedWords) setUsed(slot, n uint32, id, flags uint16) {
	*w.second(slot) = usedWord(n, id, flags)
}

// setPolled stores a used descriptor for which the driver waits; everything
// written before is visible to it then.
func (w *packedWords) setPolled(slot, n uint32, id, flags uint16) {
	atomic.StoreUint64(w.second(slot), usedWord(n, id, flags))
}

func usedWord(n uint32, id, flags uint16) uint64 {
	return uint64(n) | uint64(id)<<packedIDShift | uint64(flags)<<packedFlagsShift
}

// driverEventWord loads where, and whether, the driver wants to be called.
func (w *packedWords) driverEventWord() (code, flags uint16) {
	v := atomic.LoadUint32(w.driverEvent)
	return uint16(v), uint16(v>>16) & eventMask
}

func (w *packedWords) setDeviceEvent(code, flags uint16) {
	atomic.StoreUint32(w.deviceEvent, uint32(code)|uint32(flags)<<16)
}

// setDeviceFlags is for hints: it takes part in no order.
func (w *packedWords) setDeviceFlags(flags uint16) { order.Store16(w.deviceFlags, flags) }
