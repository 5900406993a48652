package icmp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/addrmap"
	"github.com/vhost-net-go/vhost-net-go/netstack/framequeue"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/ringtest"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/poller"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

func addr(s string) header.Addr { return header.AddrFromNetip(netip.MustParseAddr(s)) }

// The guest reaches the host's loopback under loop4 and loop6.
var (
	guest4, gate4, loop4 = addr("10.0.2.15"), addr("10.0.2.2"), addr("10.0.2.3")
	guest6, gate6, loop6 = addr("fd00::15"), addr("fe80::1"), addr("fd00::3")
)

// world is a Handler between a guest and real sockets.
type world struct {
	t     testing.TB
	link  link.Link
	queue *framequeue.Queue
	poll  *poller.Poller
	guest *ringtest.Guest
	h     *Handler
	start time.Time
	skew  int64
	seen  int
	touch func([]iov.Vec) // is shown the vectors of each frame of the guest, if not nil
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	x := &world{t: t, start: time.Now(), queue: framequeue.New()}
	x.link = link.Link{
		OurMAC: header.MAC{2, 1}, GuestMAC: header.MAC{2, 2}, MTU: 1500,
		OurLinkLocal: gate6, Gateway4: gate4, Features: header.FeatureGuestCsum,
	}
	x.guest = ringtest.New(t, x.queue, 512, 1536, true)
	var err error
	if x.poll, err = poller.New(); err != nil {
		t.Fatal(err)
	}
	m, err := addrmap.New(addrmap.Config{HostLoopback: addrmap.Pair{V4: loop4.Netip(), V6: loop6.Netip()}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Link: &x.link, Queue: x.queue, Poller: x.poll, Map: m, FlowHandler: 7}
	for _, f := range change {
		f(&cfg)
	}
	x.h = New(cfg)
	t.Cleanup(func() {
		x.h.Close()
		x.poll.Close()
	})
	return x
}

func (x *world) now() int64 { return time.Since(x.start).Milliseconds() + x.skew }

// turn does what the worker's loop does once.
func (x *world) turn(waitMs int) {
	n := x.poll.Wait(waitMs)
	x.link.NowMs = x.now()
	for i := range n {
		token, ready, _ := x.poll.At(i)
		x.h.Event(token, ready)
	}
	if d := x.h.NextDeadlineMs(); d >= 0 && d <= x.link.NowMs {
		x.h.Advance()
	}
	x.h.Run()
	x.queue.Flush()
}

func (x *world) settle() {
	for range 5 {
		x.turn(10)
	}
}

// ping lets the guest send an echo request.
func (x *world) ping(src, dst header.Addr, ttl uint8, id, seq uint16, payload []byte) {
	x.t.Helper()
	typ := uint8(header.ICMPEchoRequest)
	if !src.Is4() {
		typ = header.ICMPv6EchoRequest
	}
	x.send(header.IP{Src: src, Dst: dst, TTL: ttl}, typ, id, seq, payload)
}

func (x *world) send(ip header.IP, typ uint8, id, seq uint16, payload []byte) {
	x.t.Helper()
	ip.Proto = header.ICMPProto(&ip.Src)
	buf := make([]byte, header.VnetLen+header.EthLen+ip.Len()+header.ICMPLen+len(payload))
	frame := buf[header.VnetLen:]
	n := header.PutEth(frame, x.link.OurMAC, x.link.GuestMAC, ip.EtherType())
	n += header.PutIP(frame[n:], &ip, header.ICMPLen+len(payload))
	n += header.PutICMP(frame[n:], typ, 0, uint32(id)<<16|uint32(seq))
	copy(frame[n:], payload)
	f := &link.Frame{
		Head: frame[:min(len(frame), header.MaxHeaders)], Bytes: len(frame),
		Vecs: []iov.Vec{iov.Of(buf[:50]), iov.Of(buf[50:])},
	}
	if why := header.Parse(&f.Packet, f.Head, len(frame)); why != header.OK {
		x.t.Fatalf("test frame: %v", why)
	}
	f.Packet.Reassembled = len(frame)-header.EthLen > x.link.MTU
	x.link.NowMs = x.now()
	if x.touch != nil {
		x.touch(f.Vecs)
	}
	x.h.FromGuest(f)
	x.h.EndBatch()
	x.queue.Flush()
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}
