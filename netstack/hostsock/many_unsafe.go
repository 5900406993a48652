package hostsock

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// MaxMany is how many messages ManyCalls receives at a time.
const MaxMany = 16

// ManyCalls receives several messages with one call (recvmmsg(2)) on a connected
// socket. It is not safe for concurrent use. The zero value is ready. It must live on
// the heap, inside of its owner.
type ManyCalls struct {
	msgs    [MaxMany]mmsghdr
	control [MaxMany][4]uint64
}

// mmsghdr is the kernel's struct of that name.
type mmsghdr struct {
	unix.Msghdr
	bytes uint32
	_     uint32
}

// Into says that message i of the next Recv goes to vs.
func (c *ManyCalls) Into(i int, vs []iov.Vec) {
	m := &c.msgs[i]
	m.Msghdr = unix.Msghdr{
		Iov:     (*unix.Iovec)(unsafe.Pointer(unsafe.SliceData(vs))),
		Control: (*byte)(unsafe.Pointer(&c.control[i])),
	}
	m.SetIovlen(len(vs))
	m.SetControllen(int(unsafe.Sizeof(c.control[i])))
}

// Recv receives up to n messages, where Into said, and returns how many it was: at
// least one, unless there is an error.
func (c *ManyCalls) Recv(fd, n int) (int, Errno) {
	for {
		got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&c.msgs)),
			uintptr(n), unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
		if errno != unix.EINTR {
			return result(got, errno)
		}
	}
}

// Message returns the length of message i, and that of the datagrams in it.
func (c *ManyCalls) Message(i int) (bytes, segBytes int) {
	m := &c.msgs[i]
	b := unsafe.Slice((*byte)(unsafe.Pointer(&c.control[i])), unsafe.Sizeof(c.control[i]))
	return int(m.bytes), segment(b[:min(uint64(len(b)), m.Controllen)], int(m.bytes))
}

// segment finds the size of the datagrams of a train of n bytes in the control message
// that came with it; without one it is a single datagram.
func segment(control []byte, n int) int {
	const need = cmsgHead + 2
	if len(control) < need || binary.LittleEndian.Uint64(control) < need ||
		binary.LittleEndian.Uint32(control[8:]) != unix.SOL_UDP || binary.LittleEndian.Uint32(control[12:]) != unix.UDP_GRO {
		return n
	}
	if seg := int(binary.LittleEndian.Uint16(control[cmsgHead:])); seg > 0 {
		return min(seg, n)
	}
	return n
}
