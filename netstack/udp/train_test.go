package udp

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/hostsock"
)

// batch lets the guest send datagrams of these sizes to a port of the host at once.
func (x *world) batch(sport, dport uint16, sizes ...int) (sent [][]byte) {
	x.t.Helper()
	for i, n := range sizes {
		b := pattern(n)
		if n > 0 {
			b[0] = byte(i)
		}
		x.h.FromGuest(x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, sport, dport, b))
		sent = append(sent, b)
	}
	x.h.EndBatch()
	x.queue.Flush()
	return sent
}

func (s *host) wants(what string, sent [][]byte) {
	s.t.Helper()
	for i, want := range sent {
		if got, _ := s.read(); !bytes.Equal(got, want) {
			s.t.Fatalf("%s: datagram %d has %d bytes, want %d", what, i, len(got), len(want))
		}
	}
}

func repeat(n, times int) (out []int) {
	for range times {
		out = append(out, n)
	}
	return out
}

// TestTrains: the host sees the datagrams as the guest sent them, whatever went in
// one call.
func TestTrains(t *testing.T) {
	for _, tc := range []struct {
		sizes  []int
		trains uint64
	}{
		{[]int{100}, 0},
		{[]int{100, 100, 100}, 1},
		{[]int{100, 100, 40}, 1},
		{[]int{100, 40, 40, 40, 100, 100}, 3},
		{[]int{40, 100}, 0},
		{[]int{0, 0, 1, 1, 0, 1}, 1},
		{repeat(200, 64), 1},
		{repeat(200, 130), 3},
		{repeat(1472, 100), 3}, // 44 fill a call
		{repeat(40000, 3), 0},
	} {
		x, peer := newWorld(t), newHost(t, false)
		_ = peer.SetReadBuffer(4 << 20)
		sent := x.batch(5000, peer.port, tc.sizes...)
		name := fmt.Sprint(len(tc.sizes), " from ", tc.sizes[0])
		peer.wants(name, sent)
		if c := x.h.Counters; c.Trains != tc.trains || c.FromGuest != uint64(len(sent)) || c.SendFull+c.SendFailed != 0 {
			t.Errorf("%s: %d trains, want %d; counters %+v", name, c.Trains, tc.trains, c)
		}
	}
}

// TestTrainsOfTwoFlows: one flow's datagrams do not go on another's train.
func TestTrainsOfTwoFlows(t *testing.T) {
	x, a, b := newWorld(t), newHost(t, false), newHost(t, false)
	for range 3 {
		for _, peer := range []*host{a, a, b} {
			x.h.FromGuest(x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, 5000, peer.port, pattern(50)))
		}
	}
	x.h.EndBatch()
	a.wants("a", [][]byte{pattern(50), pattern(50), pattern(50), pattern(50), pattern(50), pattern(50)})
	b.wants("b", [][]byte{pattern(50), pattern(50), pattern(50)})
	if x.h.Counters.Trains != 3 {
		t.Errorf("counters %+v", x.h.Counters)
	}
}

// TestTrainFromAServer sends trains to a client of the guest's, through the listener.
func TestTrainFromAServer(t *testing.T) {
	x, client := newWorld(t), newHost(t, false)
	fd, err := hostsock.ListenDatagram(hostsock.Endpoint{Addr: addr("127.0.0.1")}, hostsock.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := new(hostsock.Calls).LocalEndpoint(fd)
	if err := x.h.Listen(Listener{FD: fd, Port: 7000, Any: true}); err != nil {
		t.Fatal(err)
	}
	client.write([]byte("begin"), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), e.Port))
	q := x.receive()
	for i := range 5 {
		b := pattern(600 - i/4)
		x.h.FromGuest(x.frame(header.IP{Src: q.Dst, Dst: q.Src, Proto: header.ProtoUDP, TTL: 9}, q.DstPort, q.SrcPort, b))
	}
	x.h.EndBatch()
	client.wants("answer", [][]byte{pattern(600), pattern(600), pattern(600), pattern(600), pattern(599)})
	if x.h.Counters.Trains != 1 {
		t.Errorf("counters %+v", x.h.Counters)
	}
}

// TestSegmentationByGuest has frames that hold a train already.
func TestSegmentationByGuest(t *testing.T) {
	for _, tc := range []struct {
		bytes, size, want int
		trains            uint64
	}{
		{1000, 300, 4, 1},
		{900, 300, 3, 1},
		{200, 300, 1, 0},
		{300, 300, 1, 0},
		{100 * 10, 10, 100, 2}, // more than a call takes
		{0, 300, 1, 0},
		{60000, 59999, 2, 1},
	} {
		x, peer := newWorld(t), newHost(t, false)
		_ = peer.SetReadBuffer(4 << 20)
		data := pattern(tc.bytes)
		plain := x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, 5000, peer.port, pattern(300))
		fr := x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, 5000, peer.port, data)
		fr.Vnet = header.Vnet{Flags: header.VnetNeedsCsum, GSOType: header.GSOUDPL4, GSOSize: uint16(tc.size), CsumStart: 34, CsumOffset: header.UDPCsumOffset}
		fr.Packet.Reassembled = false
		x.h.FromGuest(plain)
		x.h.FromGuest(fr)
		x.h.FromGuest(plain)
		x.h.EndBatch()
		sent := [][]byte{pattern(300)}
		for off := 0; off < max(tc.bytes, 1); off += tc.size {
			sent = append(sent, data[off:min(off+tc.size, len(data))])
		}
		if len(sent) != tc.want+1 {
			t.Fatal("the test is wrong")
		}
		peer.wants(fmt.Sprintf("%d by %d", tc.bytes, tc.size), append(sent, pattern(300)))
		if c := x.h.Counters; c.FromGuest != uint64(tc.want)+2 || c.SendFailed != 0 {
			t.Errorf("%d by %d: counters %+v", tc.bytes, tc.size, c)
		}
	}
}

// TestTrainMeetsAnError: an error that an earlier datagram left behind costs none of
// the train.
func TestTrainMeetsAnError(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	x.batch(5000, peer.port, 10)
	peer.wants("first", [][]byte{append([]byte{0}, pattern(10)[1:]...)})
	port := peer.port
	peer.Close()
	x.batch(5000, port, 10) // refused
	again := hostAt(t, port)
	again.wants("train", x.batch(5000, port, 20, 20, 20))
	x.until("ICMP error", func() bool { return x.h.Counters.ErrorsToGuest > 0 })
	if c := x.h.Counters; c.SendFailed != 0 || c.FromGuest != 5 {
		t.Errorf("counters %+v", c)
	}
}

// TestTrainNotTaken: a kernel that refuses a train gets its datagrams one by one.
func TestTrainNotTaken(t *testing.T) {
	x, peer := newWorld(t), newHost(t, false)
	peer.wants("first", x.batch(5000, peer.port, 10))
	x.h.flows.at(0).single = 500
	peer.wants("larger", x.batch(5000, peer.port, 500, 500, 600, 600))
	if x.h.Counters.Trains != 0 {
		t.Errorf("counters %+v", x.h.Counters)
	}
	peer.wants("smaller", x.batch(5000, peer.port, 499, 499, 499))
	if x.h.Counters.Trains != 1 {
		t.Errorf("counters %+v", x.h.Counters)
	}
}

// TestRecycledWithTrain: a flow that has to go sends first what waits.
func TestRecycledWithTrain(t *testing.T) {
	x := newWorld(t, func(c *Config) { c.MaxFlows = 1 })
	a, b := newHost(t, false), newHost(t, false)
	for _, peer := range []*host{a, a, b, b, a} {
		x.h.FromGuest(x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, 5000, peer.port, pattern(50)))
	}
	x.h.EndBatch()
	a.wants("a", [][]byte{pattern(50), pattern(50), pattern(50)})
	b.wants("b", [][]byte{pattern(50), pattern(50)})
	if c := x.h.Counters; c.FromGuest != 5 || c.Recycled != 2 {
		t.Errorf("counters %+v", c)
	}
}

// TestMovedWithTrain: a flow that goes to another worker leaves no datagrams behind.
func TestMovedWithTrain(t *testing.T) {
	x := newWorld(t)
	a, b := newHost(t, false), newHost(t, false)
	for range 3 {
		x.h.FromGuest(x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, 5000, a.port, pattern(50)))
	}
	m := x.h.Detach(&flowKey{Local: guest4, Remote: loop4, LocalPort: 5000, RemotePort: a.port, Proto: header.ProtoUDP})
	if m == nil {
		t.Fatal("no flow")
	}
	defer m.Drop()
	for range 3 { // takes the place of the one that went
		x.h.FromGuest(x.frame(header.IP{Src: guest4, Dst: loop4, Proto: header.ProtoUDP, TTL: 64}, 5000, b.port, pattern(60)))
	}
	x.h.EndBatch()
	a.wants("moved", [][]byte{pattern(50), pattern(50), pattern(50)})
	b.wants("new", [][]byte{pattern(60), pattern(60), pattern(60)})
}

// burst lets the host send datagrams before the guest's side looks.
func (x *world) burst(peer *host, to netip.AddrPort, sizes ...int) (sent [][]byte) {
	for i, n := range sizes {
		b := pattern(n)
		if n > 0 {
			b[0] = byte(i)
		}
		peer.write(b, to)
		sent = append(sent, b)
	}
	return sent
}

// TestBursts: what lies in a socket comes to the guest in order, whatever sizes.
func TestBursts(t *testing.T) {
	mixed := repeat(1000, 40)
	for i := range mixed {
		mixed[i] += i%7*i%5 - 100*(i%3)
	}
	for _, sizes := range [][]int{
		repeat(1472, 50), repeat(64, 70), repeat(0, 20), mixed,
		append(append(repeat(100, 20), 5000, 100, 9000), repeat(1473, 20)...),
	} {
		x, peer := newWorld(t), newHost(t, false)
		x.guest.Add(2000, 1536)
		x.send(guest4, loop4, 5000, peer.port, []byte("x"))
		_, from := peer.read()
		for range 3 {
			for i, want := range x.burst(peer, from, sizes...) {
				if d := x.receive(); !bytes.Equal(d.data, want) || d.SrcPort != peer.port || d.DstPort != 5000 {
					t.Fatalf("datagram %d of %d: %d bytes, want %d", i, len(sizes), len(d.data), len(want))
				}
			}
		}
		if c := x.h.Stats(); c.ToGuest.Datagrams != 3*uint64(len(sizes)) || c.ToGuest.Dropped != 0 {
			t.Errorf("counters %+v", c)
		}
	}
}

// TestTrainToGuest: the host sends trains; the guest sees datagrams.
func TestTrainToGuest(t *testing.T) {
	for _, features := range []uint64{0, header.FeatureGuestCsum, header.FeatureGuestCsum | header.FeatureGuestUSO4} {
		x, peer := newWorld(t), newHost(t, false)
		x.link.Features = features
		x.send(guest4, loop4, 5000, peer.port, []byte("x"))
		_, from := peer.read()
		data := pattern(10_050)
		for range 3 {
			peer.sendTrain(data, 1000, from)
			var got []byte
			var sizes []int
			for len(got) < len(data) {
				x.until("a frame", func() bool { return len(x.guest.Frames) > x.seen })
				p, f := x.guest.Parse(x.seen), x.guest.Frames[x.seen]
				x.seen++
				payload := f.Data[p.Payload:p.End]
				got = append(got, payload...)
				step := max(1, len(payload))
				if f.Vnet.GSOType == header.GSOUDPL4 {
					step = int(f.Vnet.GSOSize)
				}
				for off := 0; off < len(payload); off += step {
					sizes = append(sizes, min(step, len(payload)-off))
				}
			}
			if want := append(repeat(1000, 10), 50); !bytes.Equal(got, data) || !slices.Equal(sizes, want) {
				t.Fatalf("features %#x: datagrams of %v bytes", features, sizes)
			}
		}
		if c := x.h.Stats().ToGuest; (c.Trains == 3) != (features&header.FeatureGuestUSO4 != 0) || c.Datagrams != 33 {
			t.Errorf("features %#x: counters %+v", features, c)
		}
	}
}
