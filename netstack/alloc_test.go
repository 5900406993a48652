package netstack_test

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Traffic of these tests: packets of payloadBytes, batch of them between two
// looks at the ring.
const (
	payloadBytes = 1000
	batch        = 16
	guestPort    = 40000
)

// noAllocations runs f, after a while for buffers to grow, and fails if anything
// in the process allocates meanwhile: worker, driver or host. packets is how
// many f moves.
func noAllocations(t *testing.T, packets int, f func()) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for range 100 {
		f()
	}
	// On one processor, where nothing else of the process runs and every wait
	// takes long.
	if n := testing.AllocsPerRun(30, f); n != 0 {
		t.Errorf("%v allocations for %d packets", n, packets)
	}
	// And over more packets, with the worker beside us. The runtime's own few
	// are allowed.
	const runs, few = 500, 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > few {
		t.Errorf("%d allocations for %d packets", n, runs*packets)
	}
}

// alloc is a guest that knows one conversation, and its end on the host.
type alloc struct {
	*rig
	ip      header.IP // from the guest
	dst     uint16
	fd      int // host's socket
	scratch [64 << 10]byte

	seq, ack uint32 // TCP: next to send, next expected
}

func newAlloc(t *testing.T, proto uint8, features uint64) *alloc {
	t.Helper()
	a := &alloc{rig: newRig(t, testConfig(), features, heap())}
	a.ip = header.IP{Src: header.AddrFromNetip(guest4), Dst: header.AddrFromNetip(loopback4), Proto: proto, TTL: 64}
	a.fill(ringSize / 2)
	a.send(askGateway())
	a.expect("answer about the gateway", isGateway)
	return a
}

// listen opens a socket of the host on the loopback.
func (a *alloc) listen(kind int) {
	a.t.Helper()
	var err error
	a.fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	a.must(err)
	a.must(unix.Bind(a.fd, &unix.SockaddrInet4{Addr: netip.MustParseAddr("127.0.0.1").As4()}))
	name, err := unix.Getsockname(a.fd)
	a.must(err)
	a.dst = uint16(name.(*unix.SockaddrInet4).Port)
}

// limitWaits makes the socket's reads end if nothing comes.
func (a *alloc) limitWaits() {
	tv := unix.NsecToTimeval(int64(patience))
	a.must(unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
	fd := a.fd
	a.t.Cleanup(func() { unix.Close(fd) })
}

// tcp writes a segment with n bytes of payload to the ring.
func (a *alloc) tcp(flags uint8, n int) {
	b := a.next()[header.VnetLen:]
	l4 := header.PutEth(b, gatewayMAC, guestMAC, header.EtherTypeIPv4)
	l4 += header.PutIP(b[l4:], &a.ip, header.TCPLen+n)
	f := header.TCPFields{SrcPort: guestPort, DstPort: a.dst, Seq: a.seq, Ack: a.ack, Flags: flags, Window: 0xffff}
	end := l4 + header.PutTCP(b[l4:], &f, 0) + n
	header.SetChecksum(b[l4:end], &a.ip.Src, &a.ip.Dst, header.ProtoTCP)
	a.put(header.VnetLen + end)
	a.seq += uint32(n)
}

// segment waits for the next TCP segment, and returns it with its payload.
func (a *alloc) segment() (header.TCP, int) {
	for end := time.Now().Add(patience); ; {
		f := a.receive(time.Until(end))
		if f == nil {
			a.t.Fatal("the guest got no segment")
		}
		const l4 = header.EthLen + header.IPv4Len
		if f[12] != 8 || f[13] != 0 || f[23] != header.ProtoTCP {
			continue
		}
		t := header.TCP(f[l4:])
		return t, len(f) - l4 - t.HeaderLen()
	}
}

// connect opens a TCP connection of the guest.
func (a *alloc) connect() {
	a.t.Helper()
	a.listen(unix.SOCK_STREAM)
	a.must(unix.Listen(a.fd, 1))
	a.tcp(header.TCPSyn, 0)
	a.kickTx()
	t, _ := a.segment()
	if t.Flags() != header.TCPSyn|header.TCPAck {
		a.t.Fatalf("flags %#x, want SYN and ACK", t.Flags())
	}
	a.seq++
	a.ack = t.Seq() + 1
	a.tcp(header.TCPAck, 0)
	a.kickTx()
	l := a.fd
	var err error
	a.fd, _, err = unix.Accept4(l, unix.SOCK_CLOEXEC)
	a.must(err)
	a.must(unix.Close(l))
	a.must(unix.SetsockoptInt(a.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	a.limitWaits()
}

// read reads n bytes from the host's socket.
func (a *alloc) read(n int) {
	for n > 0 {
		k, err := unix.Read(a.fd, a.scratch[:min(n, len(a.scratch))])
		if k <= 0 {
			a.t.Fatalf("read of the host: %d, %v", k, err)
		}
		n -= k
	}
}

// eachFormat runs f for plain frames and for those of a Linux guest.
func eachFormat(t *testing.T, f func(t *testing.T, features uint64)) {
	t.Run("plain", func(t *testing.T) { f(t, 0) })
	t.Run("offloads", func(t *testing.T) {
		f(t, header.FeatureMrgRxBuf|header.FeatureCsum|header.FeatureGuestCsum|header.FeatureGuestTSO4|header.FeatureHostTSO4)
	})
}

// TestNoAllocationsTCP: neither direction of a TCP connection allocates.
func TestNoAllocationsTCP(t *testing.T) {
	eachFormat(t, func(t *testing.T, features uint64) {
		a := newAlloc(t, header.ProtoTCP, features)
		a.connect()
		t.Run("from guest", func(t *testing.T) {
			a.t = t
			noAllocations(t, batch, func() {
				for range batch {
					a.tcp(header.TCPAck|header.TCPPsh, payloadBytes)
				}
				a.kickTx()
				a.read(batch * payloadBytes)
				for acked := false; !acked; {
					s, _ := a.segment()
					acked = s.Ack() == a.seq
				}
			})
		})
		t.Run("to guest", func(t *testing.T) {
			a.t = t
			noAllocations(t, batch, func() {
				if _, err := unix.Write(a.fd, a.scratch[:batch*payloadBytes]); err != nil {
					t.Fatal(err)
				}
				for left := batch * payloadBytes; left > 0; {
					s, n := a.segment()
					switch {
					case s.Seq() == a.ack:
						a.ack += uint32(n)
						left -= n
					case int32(s.Seq()-a.ack) > 0:
						t.Fatalf("sequence number %d, want %d", s.Seq(), a.ack)
					} // else it was repeated: this takes long on a busy machine
					a.tcp(header.TCPAck, 0)
				}
				a.kickTx()
			})
		})
	})
}

// TestNoAllocationsUDP: nor do datagrams, there and back.
func TestNoAllocationsUDP(t *testing.T) {
	eachFormat(t, func(t *testing.T, features uint64) {
		a := newAlloc(t, header.ProtoUDP, features)
		a.listen(unix.SOCK_DGRAM)
		a.limitWaits()
		connected := false
		noAllocations(t, 2*batch, func() {
			for range batch {
				b := a.next()[header.VnetLen:]
				l4 := header.PutEth(b, gatewayMAC, guestMAC, header.EtherTypeIPv4)
				l4 += header.PutIP(b[l4:], &a.ip, header.UDPLen+payloadBytes)
				end := l4 + header.PutUDP(b[l4:], guestPort, a.dst, payloadBytes) + payloadBytes
				header.SetChecksum(b[l4:end], &a.ip.Src, &a.ip.Dst, header.ProtoUDP)
				a.put(header.VnetLen + end)
			}
			a.kickTx()
			if !connected {
				_, from, err := unix.Recvfrom(a.fd, a.scratch[:1], unix.MSG_PEEK)
				a.must(err)
				a.must(unix.Connect(a.fd, from))
				connected = true
			}
			for range batch {
				a.read(payloadBytes)
				if _, err := unix.Write(a.fd, a.scratch[:payloadBytes]); err != nil {
					t.Fatal(err)
				}
			}
			for got := 0; got < batch; {
				f := a.receive(patience)
				if f == nil {
					t.Fatalf("%d of %d datagrams came back", got, batch)
				}
				if f[12] == 8 && f[13] == 0 && f[23] == header.ProtoUDP {
					got++
				}
			}
		})
	})
}
