package hostsock

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

var loopback4 = header.AddrFrom4([4]byte{127, 0, 0, 1})

func TestControlRoundTrip(t *testing.T) {
	var b controlBuffer
	v4, v6 := header.AddrFrom4([4]byte{192, 0, 2, 9}), header.Addr{0: 0x20, 15: 9}
	n := b.putTTL(b.putSource(&v6, 3, true), 7, true)
	if got := b.localAddr(n); got != v6 {
		t.Errorf("IPv6 source reads back as %v", got)
	}
	n = b.putTTL(b.putSource(&v4, 0, false), 7, false)
	// What is sent is the source; what is received is the header's destination.
	data := b.bytes()[cmsgHead:]
	copy(data[8:12], data[4:8])
	if got := b.localAddr(n); got != v4 {
		t.Errorf("IPv4 source reads back as %v", got)
	}
	level, typ, ttl, next := b.next(32, n)
	if level != unix.SOL_IP || typ != unix.IP_TTL || len(ttl) != 4 || ttl[0] != 7 || next != n {
		t.Errorf("TTL message: %d, %d, % x, %d of %d", level, typ, ttl, next, n)
	}
}

// TestControlBroken gives lengths that no kernel would.
func TestControlBroken(t *testing.T) {
	for _, length := range []uint64{0, 15, 1 << 20, 1<<64 - 1, 16} {
		var b controlBuffer
		b[0] = length
		b[1] = uint64(unix.SOL_IPV6) | uint64(unix.IPV6_PKTINFO)<<32
		var e QueuedError
		for _, total := range []int{0, 8, 16, 64, len(b.bytes()), 1 << 20} {
			if got := b.localAddr(total); got != (header.Addr{}) {
				t.Errorf("length %d of %d: address %v", length, total, got)
			}
			b.queuedError(total, &e)
		}
	}
}

func TestQueuedErrorFields(t *testing.T) {
	var b controlBuffer
	data, n := b.put(0, unix.SOL_IP, unix.IP_RECVERR, sizeofExtendedErr+unix.SizeofSockaddrInet4)
	binary.LittleEndian.PutUint32(data, uint32(unix.EMSGSIZE))
	data[4], data[5], data[6] = OriginICMP, 3, 4
	binary.LittleEndian.PutUint32(data[8:], 1400)
	data[16] = unix.AF_INET
	copy(data[20:24], []byte{192, 0, 2, 1})
	var e QueuedError
	b.queuedError(n, &e)
	want := QueuedError{
		Errno: unix.EMSGSIZE, Origin: OriginICMP, Type: 3, Code: 4, Info: 1400,
		Offender: header.AddrFrom4([4]byte{192, 0, 2, 1}),
	}
	if e != want {
		t.Errorf("got %+v, want %+v", e, want)
	}
}

// TestDatagramExchange sends between two listeners and looks at what the kernel
// reports.
func TestDatagramExchange(t *testing.T) {
	var c DatagramCalls
	var conn Calls
	for _, dual := range []bool{false, true} {
		e := Endpoint{Addr: header.AddrFrom4([4]byte{})}
		if dual {
			e = Endpoint{}
		}
		a, err := ListenDatagram(e, ListenOptions{V6: dual, Dual: dual})
		if err != nil {
			t.Skip(err)
		}
		defer Close(a)
		b, err := ListenDatagram(Endpoint{Addr: loopback4}, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer Close(b)
		atA, errno := conn.LocalEndpoint(a)
		atB, errno2 := conn.LocalEndpoint(b)
		if errno != 0 || errno2 != 0 {
			t.Fatal(errno, errno2)
		}
		// a answers from an address that b did not choose.
		from := header.AddrFrom4([4]byte{127, 0, 0, 5})
		if _, errno := c.SendTo(a, []iov.Vec{iov.Of([]byte("he")), iov.Of([]byte("llo"))}, atB, dual, &from, 9); errno != 0 {
			t.Fatalf("dual %v: SendTo: %v", dual, errno)
		}
		buf := make([]byte, 3)
		var got Arrival
		n, errno := c.PeekFrom(b, &got)
		if errno != 0 || n != 5 {
			t.Fatalf("PeekFrom = %d, %v", n, errno)
		}
		n, errno = c.RecvFrom(b, []iov.Vec{iov.Of(buf)}, &got)
		if errno != 0 || n != 5 || string(buf) != "hel" {
			t.Fatalf("RecvFrom = %d, %v, %q", n, errno, buf)
		}
		if got.Peer != (Endpoint{Addr: from, Port: atA.Port}) || got.Local != loopback4 {
			t.Errorf("dual %v: arrival %+v", dual, got)
		}
		if _, errno := c.RecvFrom(b, nil, &got); errno != EAGAIN {
			t.Errorf("empty socket: %v", errno)
		}
		if _, errno := c.RecvError(b, buf, &QueuedError{}); errno != EAGAIN {
			t.Errorf("empty error queue: %v", errno)
		}
	}
	if n, err := DescriptorLimit(); n < 8 || err != nil {
		t.Errorf("DescriptorLimit = %d, %v", n, err)
	}
}
