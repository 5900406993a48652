package vutest

import (
	"sync/atomic"
	"unsafe"
)

// wordsOf returns b, which is a mapping, as words.
func wordsOf(b []byte) []atomic.Uint32 {
	return unsafe.Slice((*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
