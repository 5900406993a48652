package hostsock

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// MaxVecs is the most vectors one call takes (IOV_MAX, UIO_MAXIOV of
// <linux/uio.h>).
const MaxVecs = 1024

// Calls makes vectored socket calls. It is not safe for concurrent use. The
// zero value is ready. It must live on the heap, inside of its owner.
type Calls struct {
	msg  unix.Msghdr
	addr sockaddr
	alen uint32
}

// Send sends vs on a connected stream socket in one call and returns the bytes
// taken. It raises no SIGPIPE. More than MaxVecs vectors are cut.
func (c *Calls) Send(fd int, vs []iov.Vec) (int, Errno) {
	return c.sendmsg(fd, vs, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// Recv receives from fd into vs and drops what it receives from the socket.
func (c *Calls) Recv(fd int, vs []iov.Vec) (int, Errno) {
	return c.recvmsg(fd, vs, unix.MSG_DONTWAIT)
}

// Peek receives from fd into vs and leaves the bytes in the socket. With
// SO_PEEK_OFF set it starts at the socket's peek offset and moves that on.
func (c *Calls) Peek(fd int, vs []iov.Vec) (int, Errno) {
	return c.recvmsg(fd, vs, unix.MSG_DONTWAIT|unix.MSG_PEEK)
}

func (c *Calls) sendmsg(fd int, vs []iov.Vec, flags uintptr) (int, Errno) {
	c.setVecs(vs)
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&c.msg)), flags)
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

func (c *Calls) recvmsg(fd int, vs []iov.Vec, flags uintptr) (int, Errno) {
	c.setVecs(vs)
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&c.msg)), flags)
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// setVecs points the message header at vs. iov.Vec has the layout of struct
// iovec by its own promise.
func (c *Calls) setVecs(vs []iov.Vec) {
	vs = vs[:min(len(vs), MaxVecs)]
	c.msg.Iov = (*unix.Iovec)(unsafe.Pointer(unsafe.SliceData(vs)))
	c.msg.SetIovlen(len(vs))
}

// Discard drops up to n bytes from the head of a stream socket's receive queue
// without copying them (MSG_TRUNC, tcp(7)). It returns the bytes dropped.
func (c *Calls) Discard(fd, n int) (int, Errno) {
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, uintptr(n),
			unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
		if errno != unix.EINTR {
			return result(r, errno)
		}
	}
}

// Connect starts connecting fd to e; v6 says the family of the socket.
// EINPROGRESS is the everyday result.
func (c *Calls) Connect(fd int, e Endpoint, v6 bool) Errno {
	n := c.addr.put(e, v6)
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&c.addr)), n)
	return errno
}

// Bind binds fd to e.
func (c *Calls) Bind(fd int, e Endpoint, v6 bool) Errno {
	n := c.addr.put(e, v6)
	_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&c.addr)), n)
	return errno
}

// BindAddress binds fd to an address only (IP_BIND_ADDRESS_NO_PORT, ip(7)): the port
// is chosen by Connect, which knows the other end, so that connections to different
// ends can share one.
func (c *Calls) BindAddress(fd int, a header.Addr, v6 bool) Errno {
	// Without the option, only more ports are used.
	_ = setsockopt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	return c.Bind(fd, Endpoint{Addr: a}, v6)
}

// Accept takes one connection from the listening socket fd, non-blocking and
// closed on exec, and says who the peer is.
func (c *Calls) Accept(fd int) (int, Endpoint, Errno) {
	for {
		c.alen = unix.SizeofSockaddrInet6
		n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&c.addr)),
			uintptr(unsafe.Pointer(&c.alen)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return -1, Endpoint{}, errno
		}
		return int(n), c.addr.get(), 0
	}
}

// LocalEndpoint returns the address that fd is bound to (getsockname).
func (c *Calls) LocalEndpoint(fd int) (Endpoint, Errno) {
	c.alen = unix.SizeofSockaddrInet6
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&c.addr)),
		uintptr(unsafe.Pointer(&c.alen)))
	if errno != 0 {
		return Endpoint{}, errno
	}
	return c.addr.get(), 0
}

func result(n uintptr, errno Errno) (int, Errno) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// setsockopt sets an int option.
func setsockopt(fd, level, opt int, value int32) Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(opt),
		uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
	return errno
}

// BindToDevice makes fd send and receive through d only (SO_BINDTODEVICE,
// socket(7)); it needs no privilege as long as fd is bound to no other.
func BindToDevice(fd int, d *Device) Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE,
		uintptr(unsafe.Pointer(&d.name)), uintptr(d.bytes)+1, 0)
	return errno
}

// getsockoptInt reads an int option.
func getsockoptInt(fd, level, opt int) (int32, Errno) {
	var value int32
	n := uint32(unsafe.Sizeof(value))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(opt),
		uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&n)), 0)
	return value, errno
}

// SendSpace is what a socket's send side holds, in bytes of kernel memory:
// payload and the overhead of its buffers.
type SendSpace struct {
	LimitBytes  uint32 // sk_sndbuf
	QueuedBytes uint32 // sk_wmem_queued
}

// The fields of SO_MEMINFO, <linux/sock_diag.h> SK_MEMINFO_*.
const (
	memInfoSndbuf     = 3
	memInfoWmemQueued = 5
	memInfoVars       = 9
)

// SendSpace asks how full the send buffer of fd is (SO_MEMINFO).
func (c *Calls) SendSpace(fd int) (SendSpace, Errno) {
	var info [memInfoVars]uint32
	n := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return SendSpace{}, errno
	}
	return SendSpace{LimitBytes: info[memInfoSndbuf], QueuedBytes: info[memInfoWmemQueued]}, 0
}

func setLinger0(fd int) {
	l := unix.Linger{Onoff: 1}
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&l)), unsafe.Sizeof(l), 0)
}
