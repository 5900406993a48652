// Package hostsock makes the socket calls of the packet path: raw, without
// allocation, without the Go runtime's poller, always non-blocking.
//
// Calls on the packet path go through a [Calls] value, which holds the message
// header that the kernel reads, so that nothing has to be built or allocated a
// call. A Calls belongs to one goroutine.
//
// Errors of the packet path are plain [Errno] values (0 means success), because
// EAGAIN is an everyday result there and must cost nothing.
package hostsock

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Errno is an error number of the kernel; 0 means success.
type Errno = unix.Errno

// The error numbers that callers tell apart.
const (
	EAGAIN        = unix.EAGAIN
	EINTR         = unix.EINTR
	EINPROGRESS   = unix.EINPROGRESS
	ECONNREFUSED  = unix.ECONNREFUSED
	ECONNRESET    = unix.ECONNRESET
	EPIPE         = unix.EPIPE
	ETIMEDOUT     = unix.ETIMEDOUT
	EHOSTUNREACH  = unix.EHOSTUNREACH
	ENETUNREACH   = unix.ENETUNREACH
	EACCES        = unix.EACCES
	EPERM         = unix.EPERM
	EMFILE        = unix.EMFILE
	ENFILE        = unix.ENFILE
	ENOBUFS       = unix.ENOBUFS
	ENOMEM        = unix.ENOMEM
	EMSGSIZE      = unix.EMSGSIZE
	EFAULT        = unix.EFAULT
	EADDRINUSE    = unix.EADDRINUSE
	EADDRNOTAVAIL = unix.EADDRNOTAVAIL
	ENOTCONN      = unix.ENOTCONN
	EAFNOSUPPORT  = unix.EAFNOSUPPORT
)

// Endpoint is an address and port, in host byte order, with the scope of an
// IPv6 link-local address (0: none).
type Endpoint struct {
	Addr  header.Addr
	Port  uint16
	Scope uint32
}

// String formats e as addr:port, for logs.
func (e Endpoint) String() string {
	return fmt.Sprintf("[%v]:%d", e.Addr.Netip(), e.Port)
}

// sockaddr is room for a struct sockaddr_in or sockaddr_in6 (netinet/in.h).
// Port and address are in network byte order.
type sockaddr [unix.SizeofSockaddrInet6]byte

// put writes e in the form of the family and returns the length used.
func (s *sockaddr) put(e Endpoint, v6 bool) uintptr {
	*s = sockaddr{}
	s[2], s[3] = byte(e.Port>>8), byte(e.Port)
	if !v6 {
		s[0] = unix.AF_INET
		a := e.Addr.As4()
		copy(s[4:8], a[:])
		return unix.SizeofSockaddrInet4
	}
	s[0] = unix.AF_INET6
	copy(s[8:24], e.Addr[:])
	s[24], s[25], s[26], s[27] = byte(e.Scope), byte(e.Scope>>8), byte(e.Scope>>16), byte(e.Scope>>24)
	return unix.SizeofSockaddrInet6
}

// get reads the address that the kernel left in s. IPv4 addresses, plain or
// mapped into IPv6 by a dual-stack socket, come back in mapped form.
func (s *sockaddr) get() Endpoint {
	e := Endpoint{Port: uint16(s[2])<<8 | uint16(s[3])}
	if s[0] == unix.AF_INET {
		e.Addr = header.AddrFrom4([4]byte(s[4:8]))
		return e
	}
	copy(e.Addr[:], s[8:24])
	e.Scope = uint32(s[24]) | uint32(s[25])<<8 | uint32(s[26])<<16 | uint32(s[27])<<24
	return e
}
