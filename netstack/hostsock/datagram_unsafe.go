package hostsock

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// DatagramCalls makes the calls of datagram sockets (UDP and ping): with
// addresses, control messages and the error queue. It is not safe for
// concurrent use. The zero value is ready. It must live on the heap, inside of
// its owner.
type DatagramCalls struct {
	msg     unix.Msghdr
	name    sockaddr
	control controlBuffer
	data    [1]iov.Vec
}

// Arrival says where a datagram came from and which local address it was sent
// to, as far as the socket was told to report it.
type Arrival struct {
	Peer  Endpoint
	Local header.Addr // zero if not reported
}

// QueuedError is an entry of a socket's error queue (IP_RECVERR, ip(7)).
type QueuedError struct {
	Errno    Errno
	Origin   uint8       // one of the Origin constants
	Type     uint8       // of the ICMP message, with OriginICMP and OriginICMPv6
	Code     uint8       // likewise
	Info     uint32      // path MTU in bytes, for EMSGSIZE
	To       Endpoint    // where the datagram had been sent
	Offender header.Addr // who sent the ICMP message; zero if unknown
}

// Where a queued error comes from (<linux/errqueue.h>, SO_EE_ORIGIN_*).
const (
	OriginLocal  = 1
	OriginICMP   = 2
	OriginICMPv6 = 3
)

// Send sends the datagram vs on a connected socket.
func (c *DatagramCalls) Send(fd int, vs []iov.Vec) (int, Errno) {
	c.begin(vs)
	return c.call(unix.SYS_SENDMSG, fd, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// SendTo sends the datagram vs to an endpoint: from the local address from,
// where that is not zero, and with ttl as its TTL or hop limit. v6 is the
// family of the socket.
func (c *DatagramCalls) SendTo(fd int, vs []iov.Vec, to Endpoint, v6 bool, from *header.Addr, ttl uint8) (int, Errno) {
	return c.SendTrainTo(fd, vs, 0, to, v6, from, ttl)
}

// SendTrain sends vs on a connected UDP socket as datagrams of segBytes each, of
// which the last may be shorter: at most MaxTrain of them, and 65507 bytes in all
// (UDP_SEGMENT, udp(7)). EINVAL says among other things that segBytes exceed what
// the path takes; nothing was sent then.
func (c *DatagramCalls) SendTrain(fd int, vs []iov.Vec, segBytes uint16) (int, Errno) {
	c.begin(vs)
	c.setControl(c.control.putSegment(0, segBytes))
	return c.call(unix.SYS_SENDMSG, fd, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// SendTrainTo is SendTrain to an endpoint, with the choices of SendTo; with segBytes
// 0 it is SendTo.
func (c *DatagramCalls) SendTrainTo(fd int, vs []iov.Vec, segBytes uint16, to Endpoint, v6 bool, from *header.Addr, ttl uint8) (int, Errno) {
	c.begin(vs)
	c.msg.Name = (*byte)(unsafe.Pointer(&c.name))
	c.msg.Namelen = uint32(c.name.put(to, v6))
	n := 0
	if *from != (header.Addr{}) {
		n = c.control.putSource(from, to.Scope, v6)
	}
	n = c.control.putTTL(n, ttl, v6 && !to.Addr.Is4())
	if segBytes != 0 {
		n = c.control.putSegment(n, segBytes)
	}
	c.setControl(n)
	return c.call(unix.SYS_SENDMSG, fd, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// Recv receives a datagram into vs and returns its length, which exceeds that
// of vs if the end of the datagram was cut off.
func (c *DatagramCalls) Recv(fd int, vs []iov.Vec) (int, Errno) {
	c.begin(vs)
	return c.call(unix.SYS_RECVMSG, fd, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
}

// RecvTrain is Recv for a socket that takes trains: segBytes is the size of the
// datagrams received, of which the last may be shorter.
func (c *DatagramCalls) RecvTrain(fd int, vs []iov.Vec) (n, segBytes int, errno Errno) {
	c.begin(vs)
	c.setControl(int(unsafe.Sizeof(c.control)))
	n, errno = c.call(unix.SYS_RECVMSG, fd, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
	return n, segment(c.control.bytes()[:min(unsafe.Sizeof(c.control), uintptr(c.msg.Controllen))], n), errno
}

// RecvFrom is Recv that also says where the datagram came from.
func (c *DatagramCalls) RecvFrom(fd int, vs []iov.Vec, a *Arrival) (int, Errno) {
	return c.recvFrom(fd, vs, a, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
}

// PeekFrom says where the next datagram comes from and how long it is, and
// leaves it in the socket.
func (c *DatagramCalls) PeekFrom(fd int, a *Arrival) (int, Errno) {
	return c.recvFrom(fd, nil, a, unix.MSG_DONTWAIT|unix.MSG_TRUNC|unix.MSG_PEEK)
}

func (c *DatagramCalls) recvFrom(fd int, vs []iov.Vec, a *Arrival, flags uintptr) (int, Errno) {
	c.begin(vs)
	c.wantAncillary()
	n, errno := c.call(unix.SYS_RECVMSG, fd, flags)
	if errno != 0 {
		return 0, errno
	}
	*a = Arrival{Peer: c.name.get()}
	a.Local = c.control.localAddr(int(c.msg.Controllen))
	return n, 0
}

// RecvError takes the next entry from the error queue of fd; buf receives what
// is known of the payload that was sent. EAGAIN says that there is none.
func (c *DatagramCalls) RecvError(fd int, buf []byte, e *QueuedError) (int, Errno) {
	c.data[0] = iov.Of(buf)
	c.begin(c.data[:])
	c.wantAncillary()
	n, errno := c.call(unix.SYS_RECVMSG, fd, unix.MSG_DONTWAIT|unix.MSG_ERRQUEUE)
	if errno != 0 {
		return 0, errno
	}
	*e = QueuedError{}
	c.control.queuedError(int(c.msg.Controllen), e)
	if c.msg.Namelen != 0 {
		e.To = c.name.get()
	}
	return n, 0
}

// setControl sends n bytes of control messages along.
func (c *DatagramCalls) setControl(n int) {
	c.msg.Control = (*byte)(unsafe.Pointer(&c.control))
	c.msg.SetControllen(n)
}

// begin points the message header at vs and nothing else.
func (c *DatagramCalls) begin(vs []iov.Vec) {
	vs = vs[:min(len(vs), MaxVecs)]
	c.msg = unix.Msghdr{Iov: (*unix.Iovec)(unsafe.Pointer(unsafe.SliceData(vs)))}
	c.msg.SetIovlen(len(vs))
}

// wantAncillary asks for the address and the control messages.
func (c *DatagramCalls) wantAncillary() {
	c.name = sockaddr{}
	c.msg.Name = (*byte)(unsafe.Pointer(&c.name))
	c.msg.Namelen = uint32(unsafe.Sizeof(c.name))
	c.msg.Control = (*byte)(unsafe.Pointer(&c.control))
	c.msg.SetControllen(int(unsafe.Sizeof(c.control)))
}

func (c *DatagramCalls) call(number uintptr, fd int, flags uintptr) (int, Errno) {
	for {
		n, _, errno := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(&c.msg)), flags)
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// controlBuffer holds control messages, aligned as cmsghdr asks: on 64-bit
// Linux a 16-byte head {length uint64, level, type int32}, then the data, padded
// to 8 bytes (cmsg(3)).
type controlBuffer [32]uint64

const cmsgHead = 16

func (b *controlBuffer) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(b)), unsafe.Sizeof(*b))
}

// put begins a control message at offset at and returns where its data goes and
// where the next one begins.
func (b *controlBuffer) put(at, level, typ, dataBytes int) (data []byte, next int) {
	m := b.bytes()[at:]
	clear(m[:cmsgHead+dataBytes])
	binary.LittleEndian.PutUint64(m, uint64(cmsgHead+dataBytes))
	binary.LittleEndian.PutUint32(m[8:], uint32(level))
	binary.LittleEndian.PutUint32(m[12:], uint32(typ))
	return m[cmsgHead : cmsgHead+dataBytes], at + (cmsgHead+dataBytes+7)&^7
}

// putSource asks for a source address (ip(7) IP_PKTINFO, ipv6(7) IPV6_PKTINFO;
// dual-stack sockets take IPv4 in mapped form).
func (b *controlBuffer) putSource(from *header.Addr, scope uint32, v6 bool) int {
	if v6 {
		data, n := b.put(0, unix.SOL_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo)
		copy(data, from[:])
		binary.LittleEndian.PutUint32(data[16:], scope)
		return n
	}
	data, n := b.put(0, unix.SOL_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)
	copy(data[4:8], from[12:]) // ipi_spec_dst
	return n
}

func (b *controlBuffer) putTTL(at int, ttl uint8, v6 bool) int {
	level, typ := unix.SOL_IP, unix.IP_TTL
	if v6 {
		level, typ = unix.SOL_IPV6, unix.IPV6_HOPLIMIT
	}
	data, n := b.put(at, level, typ, 4)
	data[0] = ttl
	return n
}

// putSegment asks for datagrams of n bytes.
func (b *controlBuffer) putSegment(at int, n uint16) int {
	data, next := b.put(at, unix.SOL_UDP, unix.UDP_SEGMENT, 2)
	binary.LittleEndian.PutUint16(data, n)
	return next
}

// next takes the message at offset at apart.
func (b *controlBuffer) next(at, total int) (level, typ int, data []byte, next int) {
	m := b.bytes()
	total = min(total, len(m))
	if at+cmsgHead > total {
		return 0, 0, nil, -1
	}
	n := binary.LittleEndian.Uint64(m[at:])
	if n < cmsgHead || n > uint64(total-at) {
		return 0, 0, nil, -1
	}
	level = int(int32(binary.LittleEndian.Uint32(m[at+8:])))
	typ = int(int32(binary.LittleEndian.Uint32(m[at+12:])))
	return level, typ, m[at+cmsgHead : at+int(n)], at + (int(n)+7)&^7
}

func (b *controlBuffer) localAddr(total int) header.Addr {
	for at := 0; ; {
		level, typ, data, next := b.next(at, total)
		switch {
		case next < 0:
			return header.Addr{}
		case level == unix.SOL_IP && typ == unix.IP_PKTINFO && len(data) >= 12:
			return header.AddrFrom4([4]byte(data[8:12])) // ipi_addr: the header's destination
		case level == unix.SOL_IPV6 && typ == unix.IPV6_PKTINFO && len(data) >= 20:
			return header.Addr(data[:16])
		}
		at = next
	}
}

// sizeofExtendedErr is that of struct sock_extended_err (<linux/errqueue.h>);
// the offender's address follows it.
const sizeofExtendedErr = 16

func (b *controlBuffer) queuedError(total int, e *QueuedError) {
	for at := 0; ; {
		level, typ, data, next := b.next(at, total)
		if next < 0 {
			return
		}
		at = next
		wanted := level == unix.SOL_IP && typ == unix.IP_RECVERR || level == unix.SOL_IPV6 && typ == unix.IPV6_RECVERR
		if !wanted || len(data) < sizeofExtendedErr {
			continue
		}
		e.Errno = Errno(binary.LittleEndian.Uint32(data))
		e.Origin, e.Type, e.Code = data[4], data[5], data[6]
		e.Info = binary.LittleEndian.Uint32(data[8:])
		var s sockaddr
		n := copy(s[:], data[sizeofExtendedErr:])
		if family := binary.LittleEndian.Uint16(s[:]); n >= unix.SizeofSockaddrInet4 && family == unix.AF_INET ||
			n >= unix.SizeofSockaddrInet6 && family == unix.AF_INET6 {
			e.Offender = s.get().Addr
		}
		return
	}
}
