// Package iov holds scatter-gather lists: pieces of memory that together make
// one buffer, with the layout that the kernel's vectored system calls take.
//
// The memory behind a [Vec] usually belongs to a guest, which may change it at
// any time. Code that decides on a byte copies it first and looks only at the
// copy.
package iov

// Len returns the sum of the lengths of vs, in bytes.
func Len(vs []Vec) int {
	n := 0
	for i := range vs {
		n += int(vs[i].Len)
	}
	return n
}

// CopyOut copies from vs, starting off bytes into it, to dst. It returns the
// number of bytes copied: less than len(dst) when vs ends first.
func CopyOut(dst []byte, vs []Vec, off int) int {
	n := 0
	for i := range vs {
		l := int(vs[i].Len)
		if off >= l {
			off -= l
			continue
		}
		n += copy(dst[n:], vs[i].Bytes()[off:])
		off = 0
		if n == len(dst) {
			break
		}
	}
	return n
}

// CopyIn copies src into vs, starting off bytes into it. It returns the number
// of bytes copied: less than len(src) when vs ends first.
func CopyIn(vs []Vec, off int, src []byte) int {
	n := 0
	for i := range vs {
		if n == len(src) {
			break
		}
		l := int(vs[i].Len)
		if off >= l {
			off -= l
			continue
		}
		n += copy(vs[i].Bytes()[off:], src[n:])
		off = 0
	}
	return n
}

// AppendRange appends to dst the part of vs that starts off bytes into it and
// is n bytes long, or shorter where vs ends first. dst must not alias vs.
func AppendRange(dst, vs []Vec, off, n int) []Vec {
	for i := range vs {
		if n <= 0 {
			break
		}
		l := int(vs[i].Len)
		if off >= l {
			off -= l
			continue
		}
		take := min(l-off, n)
		dst = append(dst, vs[i].Sub(off, take))
		n -= take
		off = 0
	}
	return dst
}
