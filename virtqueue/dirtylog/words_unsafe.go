//go:build amd64 || arm64

package dirtylog

import "unsafe"

// The bitmap is one of bytes and is marked in words, because Go has no atomic
// operations on bytes. On little-endian machines, which the build constraint is
// about, bit p%32 of word p/32 is bit p%8 of byte p/8.

func aligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%wordBytes == 0 }

func wordsOf(b []byte, n int) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
