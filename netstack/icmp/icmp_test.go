package icmp

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
	"github.com/vhost-net-go/vhost-net-go/netstack/internal/nstest"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/netstack/reassembly"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// message is an ICMP message that arrived at the guest.
type message struct {
	header.Packet
	typ, code byte
	id, seq   uint16
	payload   []byte
}

// receive waits for the next message, whole again.
func (x *world) receive() message {
	x.t.Helper()
	r := reassembly.New(0)
	for end := time.Now().Add(5 * time.Second); ; {
		for len(x.guest.Frames) == x.seen {
			if time.Now().After(end) {
				x.t.Fatalf("no message within 5 s; counters %+v", x.h.Stats())
			}
			x.turn(50)
		}
		p, data := x.guest.Parse(x.seen), x.guest.Frames[x.seen].Data
		x.seen++
		if p.IsFragment() {
			whole := r.Add(&link.Frame{
				Packet: p, Head: data[:min(len(data), header.MaxHeaders)], Bytes: len(data),
				Vecs: []iov.Vec{iov.Of(make([]byte, header.VnetLen)), iov.Of(data)},
			}, 0)
			if whole == nil {
				continue
			}
			p, data = whole.Packet, whole.Vecs[0].Bytes()[header.VnetLen:]
			if !header.ChecksumOK(data[p.L4:p.End], &p.Src, &p.Dst, p.Proto) {
				x.t.Fatal("checksum over the fragments is wrong")
			}
		}
		b := data[p.L4:p.End]
		return message{p, b[0], b[1], be.Uint16(b[4:6]), be.Uint16(b[6:8]), b[header.ICMPLen:]}
	}
}

type family struct {
	name              string
	guest, loop, gate header.Addr
	reply             byte
}

var families = []family{
	{"IPv4", guest4, loop4, gate4, header.ICMPEchoReply},
	{"IPv6", guest6, loop6, gate6, header.ICMPv6EchoReply},
}

func TestPing(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	for _, fam := range families {
		x := newWorld(t)
		for seq, n := range []int{0, 56, 1472, 1473, 8000, 65499} {
			want := pattern(n)
			x.ping(fam.guest, fam.loop, 64, 0x1234, uint16(seq), want)
			m := x.receive()
			if m.typ != fam.reply || m.code != 0 || m.id != 0x1234 || int(m.seq) != seq || !bytes.Equal(m.payload, want) {
				t.Errorf("%s, %d bytes: got type %d, id %#x, seq %d, %d bytes", fam.name, n, m.typ, m.id, m.seq, len(m.payload))
			}
			if m.Src != fam.loop || m.Dst != fam.guest {
				t.Errorf("%s: reply from %v to %v", fam.name, m.Src, m.Dst)
			}
		}
		if c := x.h.Stats(); c.Opened != 1 || c.Requests != 6 || c.Replies != 6 || c.Stray != 0 {
			t.Errorf("%s: counters %+v", fam.name, c)
		}
	}
}

// TestSameIdentifier has two pings with one identifier, to different addresses
// of the host's loopback.
func TestSameIdentifier(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	x, y := newWorld(t), newWorld(t)
	for range 3 {
		for _, w := range []*world{x, y} {
			w.ping(guest4, loop4, 64, 77, 1, []byte("abc"))
			if m := w.receive(); m.id != 77 || string(m.payload) != "abc" {
				t.Errorf("id %d, payload %q", m.id, m.payload)
			}
		}
	}
}

// TestDeadAddress pings an address that does not exist: no reply may be made up.
func TestDeadAddress(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	x := newWorld(t)
	for _, dst := range []header.Addr{addr("192.0.2.1"), addr("2001:db8::1")} {
		src := guest4
		if !dst.Is4() {
			src = guest6
		}
		x.ping(src, dst, 64, 1, 0, pattern(56))
		// This namespace has no route, which is what a router says then.
		m := x.receive()
		want := byte(header.ICMPUnreachable)
		if !src.Is4() {
			want = header.ICMPv6Unreachable
		}
		if m.typ != want || m.Dst != src {
			t.Errorf("%s: got type %d to %v", dst, m.typ, m.Dst)
		}
	}
	x.settle()
	if len(x.guest.Frames) != 2 || x.h.NumFlows() != 0 || x.h.Counters.Replies != 0 {
		t.Errorf("%d frames, counters %+v", len(x.guest.Frames), x.h.Counters)
	}
}

func TestForbidden(t *testing.T) {
	nstest.Enter(t, nstest.Nobody)
	told := 0
	x := newWorld(t, func(c *Config) { c.Forbidden = func(hostsock.Errno) { told++ } })
	for range 5 {
		x.ping(guest4, loop4, 64, 1, 0, pattern(56))
		x.ping(guest6, loop6, 64, 1, 0, pattern(56))
	}
	x.settle()
	if told != 1 || x.h.Counters.Forbidden != 10 || len(x.guest.Frames) != 0 || x.h.NumFlows() != 0 {
		t.Errorf("told %d times, %d frames, counters %+v", told, len(x.guest.Frames), x.h.Counters)
	}
}

// TestOurOwnAddresses needs no socket: the link-local gateway is ours always,
// the IPv4 gateway only if it is made up.
func TestOurOwnAddresses(t *testing.T) {
	for _, own := range []bool{false, true} {
		x := newWorld(t, func(c *Config) { c.OwnGateway = own })
		if x.h.isOurs(&gate4) != own || !x.h.isOurs(&gate6) || x.h.isOurs(&loop4) || x.h.isOurs(&header.Addr{}) {
			t.Errorf("own gateway %v: wrong idea of what is ours", own)
		}
	}
	x := newWorld(t, func(c *Config) { c.OwnGateway = true })
	for _, fam := range families {
		for _, n := range []int{0, 56, 1472, 3000, 65499} {
			x.ping(fam.guest, fam.gate, 1, 9, 8, pattern(n))
			m := x.receive()
			if m.typ != fam.reply || m.id != 9 || m.seq != 8 || m.Src != fam.gate || !bytes.Equal(m.payload, pattern(n)) {
				t.Errorf("%s, %d bytes: got %+v", fam.name, n, m)
			}
		}
	}
	if x.h.NumFlows() != 0 || x.h.Counters.Answered != 10 {
		t.Errorf("counters %+v", x.h.Counters)
	}
}

func TestNotCarried(t *testing.T) {
	x := newWorld(t)
	x.send(header.IP{Src: guest4, Dst: loop4, TTL: 1}, header.ICMPEchoReply, 1, 1, nil)
	x.send(header.IP{Src: guest4, Dst: loop4, TTL: 1}, 13, 1, 1, pattern(12)) // timestamp
	x.send(header.IP{Src: guest6, Dst: loop6, TTL: 1}, header.ICMPEchoRequest, 1, 1, nil)
	x.ping(guest4, addr("224.0.0.1"), 1, 1, 1, nil)
	x.ping(guest4, addr("255.255.255.255"), 1, 1, 1, nil)
	x.ping(guest6, addr("ff02::1"), 1, 1, 1, nil)
	x.settle()
	if x.h.Counters.NotCarried != 6 || len(x.guest.Frames) != 0 {
		t.Errorf("%d frames, counters %+v", len(x.guest.Frames), x.h.Counters)
	}
	x.ping(guest4, addr("127.0.0.1"), 1, 1, 1, nil)
	if x.h.NumFlows() != 0 {
		t.Error("guest reaches the loopback by its own address")
	}
}

func TestBoundedAndForgotten(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	x := newWorld(t, func(c *Config) { c.MaxFlows = 4 })
	for id := range uint16(20) {
		x.ping(guest4, loop4, 64, 100+id, 0, pattern(8))
		if m := x.receive(); m.id != 100+id {
			t.Fatalf("id %d, want %d", m.id, 100+id)
		}
		x.skew++
	}
	if x.h.NumFlows() != 4 || x.h.Counters.Recycled != 16 {
		t.Errorf("%d flows, counters %+v", x.h.NumFlows(), x.h.Counters)
	}
	x.skew += idleMs / 2
	x.ping(guest4, loop4, 64, 119, 1, nil)
	x.skew += idleMs/2 + 3*coarseMs
	x.settle()
	if x.h.NumFlows() != 1 {
		t.Errorf("%d flows, want the one in use", x.h.NumFlows())
	}
	x.skew += idleMs
	x.settle()
	if x.h.NumFlows() != 0 || x.h.NextDeadlineMs() != -1 {
		t.Errorf("%d flows left", x.h.NumFlows())
	}
}

func TestFullRing(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	x := newWorld(t)
	x.guest.TakeAway()
	for seq := range uint16(5) {
		x.ping(guest4, loop4, 64, 1, seq, pattern(56))
	}
	x.settle()
	if !x.queue.Starved() || x.h.Run() || len(x.guest.Frames) != 0 {
		t.Fatal("replies without buffers")
	}
	x.guest.Add(8, 1536)
	x.queue.Refill()
	x.h.Refilled()
	for seq := range uint16(5) {
		if m := x.receive(); m.seq != seq {
			t.Errorf("sequence number %d, want %d", m.seq, seq)
		}
	}
}

// TestReceiveFailsForAWhile: the poller tells only once of a reply that cannot be
// received now, say for want of memory.
func TestReceiveFailsForAWhile(t *testing.T) {
	nstest.Enter(t, nstest.Everybody)
	x := newWorld(t)
	x.ping(guest4, loop4, 64, 1, 1, pattern(56))
	x.receive()
	x.ping(guest4, loop4, 64, 1, 2, pattern(56)) // the reply is in the socket already
	fd := int(x.h.flows[0].fd)
	saved, err := syscall.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(saved)
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(null)
	_ = syscall.Dup3(null, fd, syscall.O_CLOEXEC)
	x.turn(100)
	for range 3 {
		d := x.h.NextDeadlineMs() - x.link.NowMs
		if x.h.Run() || d <= 0 || d > 1000 {
			t.Fatalf("goes on in %d ms", d)
		}
		x.skew += d
		x.turn(0)
	}
	_ = syscall.Dup3(saved, fd, syscall.O_CLOEXEC)
	if m := x.receive(); m.seq != 2 {
		t.Errorf("sequence number %d", m.seq)
	}
}
