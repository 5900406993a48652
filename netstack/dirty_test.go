package netstack_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/dirtylog"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// logged is a guest whose memory is watched: what the worker writes to it, by
// itself or by way of the kernel, must be in the log.
type logged struct {
	*alloc
	rnd    *rand.Rand
	bitmap []byte
	udp    int // host's socket
	areas  []virtqtest.Buffer
	before [][]byte
}

func newLogged(t *testing.T, features uint64, packed bool, bitmap []byte) *logged {
	log, err := dirtylog.New(bitmap)
	if err != nil {
		t.Fatal(err)
	}
	w, broken := newWorker(t, testConfig())
	a := &alloc{rig: &rig{t: t, worker: w, broken: broken, features: features, packed: packed, log: log}}
	a.ip = header.IP{Src: header.AddrFromNetip(guest4), Dst: header.AddrFromNetip(loopback4), Proto: header.ProtoTCP, TTL: 64}
	g := &logged{alloc: a, rnd: rand.New(rand.NewPCG(7, features)), bitmap: bitmap}
	g.start()
	return g
}

// start makes new rings and finds the worker there.
func (g *logged) start() {
	region := heap()
	g.plug(region)
	first, err := g.mem.Alloc(dirtylog.PageSize, dirtylog.PageSize)
	g.must(err)
	g.worker.Park(func() { g.attach(); g.enable(true, true) })
	g.fill(ringSize / 2)
	end, err := g.mem.Alloc(1, 1)
	g.must(err)
	g.areas = []virtqtest.Buffer{{Addr: first, Len: uint32(end - first)}} // all receive buffers
	for _, d := range []*virtqtest.Driver{g.rx, g.tx} {
		desc, _, used := d.Addrs()
		if g.packed {
			g.areas = append(g.areas, virtqtest.Buffer{Addr: desc, Len: 16 * ringSize}, virtqtest.Buffer{Addr: used, Len: 4})
		} else {
			g.areas = append(g.areas, virtqtest.Buffer{Addr: used, Len: 6 + 8*ringSize})
		}
	}
	g.before = make([][]byte, len(g.areas))
	g.send(askGateway())
	g.expect("answer about the gateway", isGateway)
}

// watch notes what is in memory, and empties the log.
func (g *logged) watch() {
	g.worker.Park(func() {
		for i, a := range g.areas {
			g.before[i] = append(g.before[i][:0], g.mem.Bytes(a.Addr, uint64(a.Len))...)
		}
		clear(g.bitmap)
	})
}

// check compares memory and log, while the worker stands still.
func (g *logged) check(what string) (changed int) {
	g.t.Helper()
	g.worker.Park(func() {
		for i, a := range g.areas {
			now := g.mem.Bytes(a.Addr, uint64(a.Len))
			for off := range now {
				if now[off] == g.before[i][off] {
					continue
				}
				changed++
				page := (a.Addr + uint64(off)) / dirtylog.PageSize
				if g.bitmap[page/8]&(1<<(page%8)) == 0 {
					g.t.Fatalf("%s: page %#x has changed and is not in the log", what, page*dirtylog.PageSize)
				}
			}
		}
	})
	return changed
}

// toGuest sends the guest n random bytes over TCP, which it acknowledges as they
// come, so that the ring is full at times.
func (g *logged) toGuest(n int) {
	for i := range g.scratch[:n] {
		g.scratch[i] = byte(g.rnd.Uint32())
	}
	if k, err := unix.Write(g.fd, g.scratch[:n]); k != n {
		g.t.Fatalf("write of the host: %d, %v", k, err)
	}
	for n > 0 {
		s, k := g.segment()
		if s.Seq() == g.ack {
			g.ack += uint32(k)
			n -= k
		}
		g.tcp(header.TCPAck, 0)
		g.kickTx()
	}
}

// fromGuest sends n bytes the other way.
func (g *logged) fromGuest(n int) {
	g.tcp(header.TCPAck|header.TCPPsh, n)
	g.kickTx()
	g.read(n)
	for acked := false; !acked; {
		s, _ := g.segment()
		acked = s.Ack() == g.seq
	}
}

// datagram sends n bytes over UDP.
func (g *logged) datagram(port uint16, n int) {
	b := g.next()[header.VnetLen:]
	l4 := header.PutEth(b, gatewayMAC, guestMAC, header.EtherTypeIPv4)
	ip := g.ip
	ip.Proto = header.ProtoUDP
	l4 += header.PutIP(b[l4:], &ip, header.UDPLen+n)
	end := l4 + header.PutUDP(b[l4:], guestPort, port, n) + n
	header.SetChecksum(b[l4:end], &ip.Src, &ip.Dst, header.ProtoUDP)
	g.put(header.VnetLen + end)
	g.kickTx()
}

// udpEcho sends a datagram to the host and gets another one back.
func (g *logged) udpEcho(n int) {
	name, err := unix.Getsockname(g.udp)
	g.must(err)
	g.datagram(uint16(name.(*unix.SockaddrInet4).Port), n)
	_, from, err := unix.Recvfrom(g.udp, g.scratch[:], 0)
	g.must(err)
	for i := range g.scratch[:n] {
		g.scratch[i] = byte(g.rnd.Uint32())
	}
	g.must(unix.Sendto(g.udp, g.scratch[:n], 0, from))
	g.expect("datagram", isProto(header.ProtoUDP))
}

func isProto(proto uint8) func([]byte) bool {
	return func(f []byte) bool { return f[12] == 8 && f[13] == 0 && f[23] == proto }
}

// step is some traffic.
func (g *logged) step() string {
	switch g.rnd.IntN(5) {
	case 0:
		g.fromGuest(1 + g.rnd.IntN(1000))
		return "TCP from the guest"
	case 1:
		g.udpEcho(g.rnd.IntN(1400))
		return "UDP"
	case 2:
		g.send(askGateway())
		g.expect("answer about the gateway", isGateway)
		return "ARP"
	case 3:
		g.datagram(1, 10) // nobody there
		g.expect("ICMP message", isProto(header.ProtoICMP))
		return "ICMP"
	default:
		g.toGuest(1 + g.rnd.IntN(60000))
		return "TCP to the guest"
	}
}

func (g *logged) connectBoth() {
	g.listen(unix.SOCK_DGRAM)
	g.udp = g.fd
	g.limitWaits()
	g.connect()
}

// loggedEach runs f for each kind of ring and of frames.
func loggedEach(t *testing.T, f func(t *testing.T, features uint64, packed bool)) {
	eachFormat(t, func(t *testing.T, features uint64) {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("packed %v", packed), func(t *testing.T) { f(t, features, packed) })
		}
	})
}

// heapEnd is the guest address behind the memory of heap.
const heapEnd = 2 << 20

// TestDirtyLog: whatever the traffic, each page that was written is in the log.
func TestDirtyLog(t *testing.T) {
	loggedEach(t, func(t *testing.T, features uint64, packed bool) {
		g := newLogged(t, features, packed, make([]byte, heapEnd/dirtylog.PageSize/8))
		g.connectBoth()
		changed := 0
		for range 40 {
			g.watch()
			changed += g.check(g.step())
		}
		if changed == 0 {
			t.Error("nothing has changed")
		}
	})
}

// TestDirtyLogGone: a log whose file is cut short in the middle of a migration
// stops the rings, as memory does, and not the process.
func TestDirtyLogGone(t *testing.T) {
	loggedEach(t, func(t *testing.T, features uint64, packed bool) {
		fd, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Ftruncate(fd, dirtylog.PageSize); err != nil {
			t.Fatal(err)
		}
		bitmap, err := unix.Mmap(fd, 0, dirtylog.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		// After the worker has ended.
		t.Cleanup(func() { _ = unix.Munmap(bitmap) })
		g := newLogged(t, features, packed, bitmap)
		g.connectBoth()
		g.step()
		g.must(unix.Ftruncate(fd, 0))
		g.tcp(header.TCPAck|header.TCPPsh, 100)
		g.kickTx()
		for range 2 {
			if b := g.mustBreak(); b.err != netstack.ErrGuestMemory {
				t.Errorf("told %v, want %v", b.err, netstack.ErrGuestMemory)
			}
		}
		// The next rings have no log, and work.
		g.log = nil
		g.start()
		if !bytes.Equal(g.frame[header.VnetLen:][:6], guestMAC[:]) {
			t.Error("no answer over the new rings")
		}
	})
}
