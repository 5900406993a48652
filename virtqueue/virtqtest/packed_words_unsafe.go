package virtqtest

import (
	"sync/atomic"
	"unsafe"
)

// packedWords are the words of a packed ring that the two sides access at the
// same time. The device's ends are in package virtqueue.
type packedWords struct {
	desc        unsafe.Pointer
	driverEvent *uint32
	deviceEvent *uint32
}

func (w *packedWords) init(desc, driver, device []byte) {
	w.desc = unsafe.Pointer(unsafe.SliceData(desc))
	w.driverEvent = (*uint32)(unsafe.Pointer(unsafe.SliceData(driver)))
	w.deviceEvent = (*uint32)(unsafe.Pointer(unsafe.SliceData(device)))
}

func (w *packedWords) word(slot uint16) *uint32 {
	return (*uint32)(unsafe.Add(w.desc, descBytes*int(slot)+12))
}

// mark loads what the device stores at once: ID and flags with the length.
func (w *packedWords) mark(slot uint16) (id, flags uint16) {
	v := atomic.LoadUint64((*uint64)(unsafe.Add(w.desc, descBytes*int(slot)+8)))
	return uint16(v >> 32), uint16(v >> 48)
}

func (w *packedWords) setMark(slot, id, flags uint16) {
	atomic.StoreUint32(w.word(slot), uint32(id)|uint32(flags)<<16)
}

func (w *packedWords) setDriverEvent(at, flags uint16) {
	atomic.StoreUint32(w.driverEvent, uint32(at)|uint32(flags)<<16)
}

func (w *packedWords) deviceEventWord() (at, flags uint16) {
	v := atomic.LoadUint32(w.deviceEvent)
	return uint16(v), uint16(v >> 16)
}
