package hostsock

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

var loopback = header.AddrFromNetip(netip.MustParseAddr("127.0.0.1"))

// pair returns both ends of a TCP connection over loopback.
func pair(t *testing.T) (client, server int) {
	t.Helper()
	var c Calls
	l, err := ListenStream(Endpoint{Addr: loopback}, ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer Close(l)
	at, errno := c.LocalEndpoint(l)
	if errno != 0 {
		t.Fatal(errno)
	}
	client, errno = OpenStream(false)
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { Close(client) })
	if errno := c.Connect(client, at, false); errno != 0 && errno != EINPROGRESS {
		t.Fatal(errno)
	}
	eventually(t, "accept", func() bool {
		var peer Endpoint
		server, peer, errno = c.Accept(l)
		return errno == 0 && peer.Addr == loopback
	})
	t.Cleanup(func() { Close(server) })
	return client, server
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 5 s", what)
		}
	}
}

// TestKernelPeeksAtAnOffset is what netstack/tcp builds on: with SO_PEEK_OFF a
// peek moves on by what it returned, and dropping from the head moves the offset
// back, so that the next peek returns the next byte.
func TestKernelPeeksAtAnOffset(t *testing.T) {
	if !HasPeekOffset() {
		t.Skip("this kernel has no SO_PEEK_OFF for TCP")
	}
	var c Calls
	client, server := pair(t)
	sent := []byte("0123456789abcdef")
	if n, errno := c.Send(client, []iov.Vec{iov.Of(sent[:4]), iov.Of(sent[4:])}); n != len(sent) || errno != 0 {
		t.Fatalf("sent %d bytes, %v", n, errno)
	}
	if errno := SetPeekOffset(server, 0); errno != 0 {
		t.Fatal(errno)
	}
	buf := make([]byte, 4)
	peek := func(want string) {
		t.Helper()
		eventually(t, "peek", func() bool {
			n, errno := c.Peek(server, []iov.Vec{iov.Of(buf[:1]), iov.Of(buf[1:])})
			return errno == 0 && string(buf[:n]) == want
		})
	}
	peek("0123")
	peek("4567")
	if n, errno := c.Discard(server, 6); n != 6 || errno != 0 {
		t.Fatalf("discarded %d bytes, %v", n, errno)
	}
	peek("89ab")
	if errno := SetPeekOffset(server, 0); errno != 0 {
		t.Fatal(errno)
	}
	peek("6789")
	rest := make([]byte, 32)
	if n, errno := c.Recv(server, []iov.Vec{iov.Of(rest)}); errno != 0 || !bytes.Equal(rest[:n], sent[6:]) {
		t.Errorf("received %q, %v, want %q", rest[:n], errno, sent[6:])
	}
}

// TestEndAndAbort: a peek at the end returns 0 after shutdown, and an abort is
// an error, not an end.
func TestEndAndAbort(t *testing.T) {
	var c Calls
	buf := []iov.Vec{iov.Of(make([]byte, 8))}
	client, server := pair(t)
	if _, errno := c.Peek(server, buf); errno != EAGAIN {
		t.Errorf("peek at nothing: %v, want EAGAIN", errno)
	}
	if errno := ShutdownWrite(client); errno != 0 {
		t.Fatal(errno)
	}
	eventually(t, "end of file", func() bool {
		n, errno := c.Peek(server, buf)
		return n == 0 && errno == 0
	})
	client, server = pair(t)
	Abort(client)
	eventually(t, "reset", func() bool {
		_, errno := c.Peek(server, buf)
		return errno == ECONNRESET
	})
}

func TestSendSpaceAndErrors(t *testing.T) {
	var c Calls
	client, _ := pair(t)
	s, errno := c.SendSpace(client)
	if errno != 0 || s.LimitBytes == 0 || s.QueuedBytes > s.LimitBytes {
		t.Errorf("send space %+v, %v", s, errno)
	}
	refused, errno := OpenStream(false)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer Close(refused)
	if errno := c.Connect(refused, Endpoint{Addr: loopback, Port: 1}, false); errno == EINPROGRESS {
		eventually(t, "refusal", func() bool { return TakeError(refused) == ECONNREFUSED })
	} else if errno != ECONNREFUSED {
		t.Errorf("connect to a closed port: %v", errno)
	}
	if _, err := ListenStream(Endpoint{Addr: loopback, Port: 80}, ListenOptions{Device: "no-such-interface"}); err == nil {
		t.Error("listened on an interface that does not exist")
	}
}

func TestStreamCallsAllocateNothing(t *testing.T) {
	c := new(Calls)
	client, server := pair(t)
	msg, buf := []iov.Vec{iov.Of(make([]byte, 64))}, []iov.Vec{iov.Of(make([]byte, 64))}
	if n := testing.AllocsPerRun(200, func() {
		c.Send(client, msg)
		c.Peek(server, buf)
		c.Discard(server, 64)
		c.SendSpace(client)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestLastNumber(t *testing.T) {
	for s, want := range map[string]int{"4096\t16384\t4194304\n": 4194304, "": 0, "a b": 0, "1 -5": 0, "7": 7} {
		if got := lastNumber(s); got != want {
			t.Errorf("lastNumber(%q) = %d, want %d", s, got, want)
		}
	}
}

// TestBindAddress: the port is chosen when the other end is known, of TCP and UDP.
func TestBindAddress(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		a := header.AddrFromNetip(netip.MustParseAddr("127.0.0.1"))
		if v6 {
			a = header.AddrFromNetip(netip.IPv6Loopback())
		}
		peer, err := ListenDatagram(Endpoint{Addr: a}, ListenOptions{V6: v6})
		if err != nil {
			t.Skipf("SKIP: %v", err)
		}
		defer Close(peer)
		c := new(Calls)
		to, _ := c.LocalEndpoint(peer)
		for name, open := range map[string]func(bool) (int, Errno){"TCP": OpenStream, "UDP": OpenDatagram} {
			fd, errno := open(v6)
			if errno != 0 {
				t.Fatal(errno)
			}
			defer Close(fd)
			if errno := c.BindAddress(fd, a, v6); errno != 0 {
				t.Fatalf("%s: %v", name, errno)
			}
			if e, errno := c.LocalEndpoint(fd); errno != 0 || e.Port != 0 || e.Addr != a {
				t.Errorf("%s: bound to %v, %v, want no port", name, e, errno)
			}
			_ = c.Connect(fd, to, v6) // nobody listens for TCP there
			if e, errno := c.LocalEndpoint(fd); name == "UDP" && (errno != 0 || e.Port == 0 || e.Addr != a) {
				t.Errorf("%s: %v, %v after connect", name, e, errno)
			}
		}
	}
}
