package hostsock

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

func TestFreeBind(t *testing.T) {
	for _, tt := range []struct {
		e  Endpoint
		v6 bool
	}{{Endpoint{Addr: header.AddrFromNetip(netip.MustParseAddr("192.0.2.77"))}, false}, {Endpoint{Addr: header.AddrFromNetip(netip.MustParseAddr("2001:db8::77"))}, true}} {
		for name, open := range map[string]func(Endpoint, ListenOptions) (int, error){"stream": ListenStream, "datagram": ListenDatagram} {
			if fd, err := open(tt.e, ListenOptions{V6: tt.v6}); !errors.Is(err, EADDRNOTAVAIL) && !errors.Is(err, EAFNOSUPPORT) {
				t.Errorf("%s on %v: %d, error %v", name, tt.e, fd, err)
			}
			fd, err := open(tt.e, ListenOptions{V6: tt.v6, FreeBind: true})
			if errors.Is(err, EAFNOSUPPORT) {
				continue
			}
			if err != nil {
				t.Errorf("%s on %v with free bind: %v", name, tt.e, err)
				continue
			}
			Close(fd)
		}
	}
}

func TestInspect(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	stream, err := ListenStream(Endpoint{Addr: loopback}, ListenOptions{Device: "lo"})
	if err != nil {
		t.Fatal(err)
	}
	defer Close(stream)
	dgram, err := ListenDatagram(Endpoint{}, ListenOptions{V6: true, Dual: true})
	if err != nil {
		t.Skip(err)
	}
	defer Close(dgram)
	for _, tt := range []struct {
		fd   int
		want Inherited
	}{
		{stream, Inherited{Stream: true, Device: "lo", Local: netip.AddrPortFrom(lo, 0)}},
		{dgram, Inherited{V6: true, Dual: true, Local: netip.AddrPortFrom(netip.IPv6Unspecified(), 0)}},
	} {
		port, err := LocalPort(tt.fd)
		if err != nil || port == 0 {
			t.Fatalf("port %d, error %v", port, err)
		}
		tt.want.Local = netip.AddrPortFrom(tt.want.Local.Addr(), port)
		got, err := Inspect(tt.fd)
		if err != nil || got != tt.want {
			t.Errorf("%+v, error %v, want %+v", got, err, tt.want)
		}
		if err := Adopt(tt.fd, got); err != nil {
			t.Error(err)
		}
	}
	unbound, errno := OpenStream(false)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(unbound)
	if got, err := Inspect(unbound); !errors.Is(err, ErrNotListening) {
		t.Errorf("a socket that does not listen: %+v, error %v", got, err)
	}
	if got, err := Inspect(-1); err == nil {
		t.Errorf("no socket: %+v", got)
	}
	if port, err := LocalPort(-1); err == nil {
		t.Errorf("no socket: port %d", port)
	}
}

// TestAdopt wants what an inherited socket lacks.
func TestAdopt(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	in, err := Inspect(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := Adopt(fd, in); err != nil {
		t.Fatal(err)
	}
	info, errno := getsockoptInt(fd, unix.SOL_IP, unix.IP_PKTINFO)
	errs, errno2 := getsockoptInt(fd, unix.SOL_IP, unix.IP_RECVERR)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	onExec, err2 := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if info != 1 || errs != 1 || flags&unix.O_NONBLOCK == 0 || onExec&unix.FD_CLOEXEC == 0 || errno != 0 || errno2 != 0 || err != nil || err2 != nil {
		t.Errorf("pktinfo %d, recverr %d, flags %#x, fd flags %#x", info, errs, flags, onExec)
	}
	if err := Adopt(-1, in); err == nil {
		t.Error("adopted what is no socket")
	}
}

func TestBindToDevice(t *testing.T) {
	fd, errno := OpenDatagram(false)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(fd)
	lo, none, missing := DeviceNamed("lo"), DeviceNamed(""), DeviceNamed("no-such-if-at-all")
	if !lo.Given() || none.Given() || !missing.Given() {
		t.Error("which devices are given is wrong")
	}
	if errno := BindToDevice(fd, &missing); errno != unix.ENODEV {
		t.Errorf("an interface that is not there: %v", errno)
	}
	if errno := BindToDevice(fd, &lo); errno != 0 {
		t.Errorf("loopback: %v", errno)
	}
	if name, err := unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); name != "lo" || err != nil {
		t.Errorf("bound to %q, error %v", name, err)
	}
	if n := testing.AllocsPerRun(10, func() { BindToDevice(fd, &lo) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
