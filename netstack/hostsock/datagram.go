package hostsock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// EINVAL is what the kernel says to a destination that cannot be, such as a
// link-local one without a link.
const EINVAL = unix.EINVAL

// EIO and EOPNOTSUPP are what the kernel says to a train of datagrams on a path that takes single
// ones only, such as IPsec.
const (
	EIO        = unix.EIO
	EOPNOTSUPP = unix.EOPNOTSUPP
)

// MaxTrain is how many datagrams one SendTrain takes (UDP_MAX_SEGMENTS of the
// kernel's net/udp.h, before 6.9).
const MaxTrain = 64

// Fragmentation says what the kernel does with a datagram that is larger than
// the path takes (IP_MTU_DISCOVER, ip(7)).
type Fragmentation int32

const (
	// Allow fragments on the host and on the way.
	Allow Fragmentation = unix.IP_PMTUDISC_DONT
	// Forbid refuses it with EMSGSIZE and sends the others with DF set.
	Forbid Fragmentation = unix.IP_PMTUDISC_DO
)

// OpenDatagram opens a UDP socket of one family that shares its port with others
// of ours (SO_REUSEADDR) and reports errors in its error queue.
func OpenDatagram(v6 bool) (int, Errno) {
	return openDatagram(v6, unix.IPPROTO_UDP)
}

// OpenPing opens an unprivileged ICMP or ICMPv6 echo socket (icmp(7)). EACCES
// says that the group of the process is not in net.ipv4.ping_group_range. No
// other socket can have the identifier that it is bound to.
func OpenPing(v6 bool) (int, Errno) {
	if v6 {
		return openDatagram(v6, unix.IPPROTO_ICMPV6)
	}
	return openDatagram(v6, unix.IPPROTO_ICMP)
}

func openDatagram(v6 bool, proto uintptr) (int, Errno) {
	family := uintptr(unix.AF_INET)
	if v6 {
		family = unix.AF_INET6
	}
	r, _, errno := unix.RawSyscall(unix.SYS_SOCKET, family,
		unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto)
	if errno != 0 {
		return -1, errno
	}
	fd := int(r)
	// Ping sockets share identifiers unless told not to, and then one of them
	// gets the replies of all.
	share := int32(0)
	if proto == unix.IPPROTO_UDP {
		share = 1
	}
	errno = setsockopt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, share)
	if errno == 0 && v6 && proto == unix.IPPROTO_UDP {
		errno = setsockopt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if errno == 0 {
		errno = reportErrors(fd, v6)
	}
	if errno != 0 {
		Close(fd)
		return -1, errno
	}
	return fd, 0
}

// reportErrors turns the error queue on; a dual-stack socket has two switches.
func reportErrors(fd int, v6 bool) Errno {
	if v6 {
		_ = setsockopt(fd, unix.SOL_IP, unix.IP_RECVERR, 1) // ping sockets have no IPv4 side
		return setsockopt(fd, unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
	}
	return setsockopt(fd, unix.SOL_IP, unix.IP_RECVERR, 1)
}

// ListenDatagram opens a UDP socket that receives what is sent to e, or to its
// port on all addresses of the families where e has no address at all. RecvFrom
// reports the local address that each datagram was sent to.
func ListenDatagram(e Endpoint, o ListenOptions) (int, error) {
	fd, errno := OpenDatagram(o.V6)
	if errno != 0 {
		return -1, fmt.Errorf("open a UDP socket: %w", errno)
	}
	// Two programs that both share the port would steal from each other.
	errno = setsockopt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
	if errno == 0 {
		errno = reportLocal(fd, o.V6)
	}
	if errno != 0 {
		Close(fd)
		return -1, fmt.Errorf("set up a UDP socket: %w", errno)
	}
	if err := bindListener(fd, e, o); err != nil {
		Close(fd)
		return -1, err
	}
	return fd, nil
}

// reportLocal makes RecvFrom tell which address a datagram was sent to.
func reportLocal(fd int, v6 bool) Errno {
	if v6 {
		return setsockopt(fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	return setsockopt(fd, unix.SOL_IP, unix.IP_PKTINFO, 1)
}

// SetTTL sets the TTL or hop limit of what fd sends; 1 to 255.
func SetTTL(fd int, v6 bool, ttl uint8) Errno {
	if v6 {
		return setsockopt(fd, unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS, int32(ttl))
	}
	return setsockopt(fd, unix.SOL_IP, unix.IP_TTL, int32(ttl))
}

// SetMulticast prepares fd for sending to a group: with ttl, and not back to
// this host.
func SetMulticast(fd int, v6 bool, ttl uint8) Errno {
	level, hops, loop := unix.SOL_IP, unix.IP_MULTICAST_TTL, unix.IP_MULTICAST_LOOP
	if v6 {
		level, hops, loop = unix.SOL_IPV6, unix.IPV6_MULTICAST_HOPS, unix.IPV6_MULTICAST_LOOP
	}
	if errno := setsockopt(fd, level, loop, 0); errno != 0 {
		return errno
	}
	return setsockopt(fd, level, hops, int32(ttl))
}

// SetFragmentation says what becomes of datagrams larger than the path takes.
func SetFragmentation(fd int, v6 bool, f Fragmentation) Errno {
	if v6 {
		return setsockopt(fd, unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, int32(f))
	}
	return setsockopt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, int32(f))
}

// TakeTrains lets a UDP socket deliver datagrams of one size together, as they were
// sent or as the network card gathered them (UDP_GRO): RecvTrain and ManyCalls tell
// their size. Nothing is received together that Recv could not tell apart without it.
func TakeTrains(fd int) Errno { return setsockopt(fd, unix.SOL_UDP, unix.UDP_GRO, 1) }

// DescriptorLimit returns how many descriptors this process may have open
// (RLIMIT_NOFILE), at most 1<<20. Not every sandbox lets it ask.
func DescriptorLimit() (int, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("ask for the limit of descriptors: %w", err)
	}
	return int(min(l.Cur, 1<<20)), nil
}
