package virtqueue_test

import (
	"sync/atomic"
	"unsafe"
)

// takeBit clears the bit of a page in a log that is in use, and reports whether
// it was set.
func takeBit(bitmap []byte, p uint64) bool {
	w := (*uint32)(unsafe.Pointer(&bitmap[p/32*4]))
	return atomic.AndUint32(w, ^(1<<(p%32)))&(1<<(p%32)) != 0
}
