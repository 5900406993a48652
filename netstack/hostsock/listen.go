package hostsock

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// ListenOptions say how a listening socket is bound.
type ListenOptions struct {
	V6 bool // family of the socket
	// Dual, with V6 and no address, takes IPv4 as well.
	Dual bool
	// Device names the interface to listen on; empty means all.
	Device string
	// FreeBind allows an address that the host does not have yet (IP_FREEBIND,
	// ip(7)).
	FreeBind bool
}

// bindListener sets the options of a listening socket and binds it.
func bindListener(fd int, e Endpoint, o ListenOptions) error {
	if o.V6 {
		only := int32(1)
		if o.Dual {
			only = 0
		}
		if errno := setsockopt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, only); errno != 0 {
			return fmt.Errorf("set IPV6_V6ONLY: %w", errno)
		}
	}
	if o.FreeBind {
		level, opt := unix.SOL_IP, unix.IP_FREEBIND
		if o.V6 {
			level, opt = unix.SOL_IPV6, unix.IPV6_FREEBIND
		}
		if errno := setsockopt(fd, level, opt, 1); errno != 0 {
			return fmt.Errorf("set IP_FREEBIND: %w", errno)
		}
	}
	if o.Device != "" {
		if err := unix.BindToDevice(fd, o.Device); err != nil {
			return fmt.Errorf("bind to interface %s: %w", o.Device, err)
		}
	}
	var c Calls
	if errno := c.Bind(fd, e, o.V6); errno != 0 {
		return fmt.Errorf("bind to %v: %w", e, errno)
	}
	return nil
}

// Inherited describes a bound socket that somebody else opened.
type Inherited struct {
	// Stream says that it is a TCP socket that listens; otherwise it is one
	// of UDP.
	Stream bool
	V6     bool
	Dual   bool
	Local  netip.AddrPort
	Device string // the interface it is bound to, "" for any
}

// ErrNotListening is wrapped when an inherited socket is of no use for a
// forwarded port.
var ErrNotListening = errors.New("neither a listening TCP socket nor a bound UDP socket")

// Inspect says what kind of socket fd is.
func Inspect(fd int) (Inherited, error) {
	var in Inherited
	typ, errno := getsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if errno != 0 {
		return in, fmt.Errorf("look at socket: %w", errno)
	}
	listens, _ := getsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	in.Stream = typ == unix.SOCK_STREAM
	if in.Stream != (listens != 0) || typ != unix.SOCK_STREAM && typ != unix.SOCK_DGRAM {
		return in, ErrNotListening
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return in, fmt.Errorf("look at socket: %w", err)
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		in.Local = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		in.Local = netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
		only, _ := getsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY)
		in.V6, in.Dual = true, only == 0 && in.Local.Addr().IsUnspecified()
	default:
		return in, ErrNotListening
	}
	if in.Local.Port() == 0 {
		return in, ErrNotListening
	}
	in.Device, _ = unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE)
	return in, nil
}

// Adopt makes an inherited socket what ListenStream or ListenDatagram would
// have made.
func Adopt(fd int, in Inherited) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("adopt socket: %w", err)
	}
	unix.CloseOnExec(fd)
	var errno Errno
	if in.Stream {
		if errno = SetNoDelay(fd); errno == 0 {
			errno = setsockopt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
		}
	} else if errno = reportErrors(fd, in.V6); errno == 0 {
		errno = reportLocal(fd, in.V6)
	}
	if errno != 0 {
		return fmt.Errorf("adopt socket: %w", errno)
	}
	return nil
}

// LocalPort returns the port that fd is bound to.
func LocalPort(fd int) (uint16, error) {
	e, errno := localEndpoint(fd)
	if errno != 0 {
		return 0, fmt.Errorf("look at socket: %w", errno)
	}
	return e.Port, nil
}

func localEndpoint(fd int) (Endpoint, Errno) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		var errno Errno
		errors.As(err, &errno)
		return Endpoint{}, errno
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return Endpoint{Addr: header.AddrFrom4(a.Addr), Port: uint16(a.Port)}, 0
	case *unix.SockaddrInet6:
		return Endpoint{Addr: a.Addr, Port: uint16(a.Port), Scope: a.ZoneId}, 0
	}
	return Endpoint{}, unix.EAFNOSUPPORT
}

// Device is the name of an interface that sockets are bound to, in the form
// that the kernel reads. The zero Device is none.
type Device struct {
	name  [unix.IFNAMSIZ]byte
	bytes uint8
}

// DeviceNamed returns the device for a name of at most 15 bytes.
func DeviceNamed(name string) (d Device) {
	d.bytes = uint8(copy(d.name[:unix.IFNAMSIZ-1], name))
	return d
}

// Given reports whether d names an interface.
func (d *Device) Given() bool { return d.bytes > 0 }
