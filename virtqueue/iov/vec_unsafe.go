package iov

import "unsafe"

// Vec is one contiguous piece of memory, laid out as struct iovec of
// <sys/uio.h> on 64-bit Linux: a pointer, then a length in bytes. The zero Vec
// is empty.
//
// A Vec does not keep memory mapped by mmap alive; whoever made it says how
// long it is valid.
type Vec struct {
	Base *byte
	Len  uint64
}

// Of returns the Vec that covers b.
func Of(b []byte) Vec {
	return Vec{Base: unsafe.SliceData(b), Len: uint64(len(b))}
}

// Bytes returns the memory behind v as a slice.
func (v Vec) Bytes() []byte {
	return unsafe.Slice(v.Base, v.Len)
}

// Sub returns the n bytes of v that start at off. The range must lie in v.
func (v Vec) Sub(off, n int) Vec {
	if off < 0 || n < 0 || uint64(off)+uint64(n) > v.Len {
		panic("iov: range outside of the vector")
	}
	return Vec{Base: (*byte)(unsafe.Add(unsafe.Pointer(v.Base), off)), Len: uint64(n)}
}
