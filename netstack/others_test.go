package netstack

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// team is three workers that stand still, so that a test decides in which order
// they do what they do, and a socket of the host's loopback. The guest has it at
// 192.0.2.1, and sends from port 5000.
type team struct {
	*testing.T
	*Group
	fd   int
	host uint16
}

// withTeam runs f with the workers parked and all pairs in use.
func withTeam(t *testing.T, kind int, f func(x *team)) {
	t.Helper()
	x := newTeam(t, kind)
	x.Park(func() {
		_, err := x.worker(2)
		x.must(err)
		x.active = []uint8{0, 1, 2}
		f(x)
	})
	x.close() // not if the test has ended halfway: the workers still stand
}

func newTeam(t *testing.T, kind int) *team {
	t.Helper()
	cfg := internalConfig()
	cfg.MapHostLoopback.V4 = netip.MustParseAddr("192.0.2.1")
	cfg.Forwards = []forward.Rule{{Proto: forward.TCP, ListenAddr: netip.MustParseAddr("127.0.0.1"), TargetFirstPort: 5000}}
	g, err := NewGroup(cfg, 3, func(int, bool, error) {})
	if err != nil {
		t.Fatal(err)
	}
	x := &team{T: t, Group: g}
	x.fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	x.must(err)
	x.must(unix.SetsockoptInt(x.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	x.must(unix.Bind(x.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	if kind == unix.SOCK_STREAM {
		x.must(unix.Listen(x.fd, 8))
	}
	at, err := unix.Getsockname(x.fd)
	x.must(err)
	x.host = uint16(at.(*unix.SockaddrInet4).Port)
	return x
}

func (x *team) close() {
	x.Close()
	unix.Close(x.fd)
}

func (x *team) must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// key is the conversation of the guest with the host's socket.
func (x *team) key(proto uint8) flowtable.Key {
	return flowtable.Key{
		Local: header.AddrFromNetip(x.cfg.IPv4.Guest), Remote: header.AddrFromNetip(x.cfg.MapHostLoopback.V4),
		LocalPort: 5000, RemotePort: x.host, Proto: proto,
	}
}

// frame makes a frame of the guest; put writes what follows IP.
func (x *team) frame(proto uint8, l4Bytes int, put func(b []byte)) []byte {
	b := make([]byte, header.VnetLen+header.EthLen+header.IPv4Len+l4Bytes)
	k := x.key(proto)
	ip := header.IP{Src: k.Local, Dst: k.Remote, Proto: proto, TTL: 64}
	f := b[header.VnetLen:]
	l4 := header.PutEth(f, x.cfg.GatewayMAC, header.MAC{2, 0, 0, 0, 0, 9}, header.EtherTypeIPv4)
	l4 += header.PutIP(f[l4:], &ip, l4Bytes)
	put(f[l4:])
	header.SetChecksum(f[l4:], &ip.Src, &ip.Dst, proto)
	return b
}

// datagram lets the guest send one byte on a pair.
func (x *team) datagram(pair int, what byte) {
	b := x.frame(header.ProtoUDP, header.UDPLen+1, func(b []byte) {
		header.PutUDP(b, 5000, x.host, 1)
		b[header.UDPLen] = what
	})
	x.send(pair, b)
}

// syn lets the guest open a connection on a pair.
func (x *team) syn(pair int) { x.segment(pair, header.TCPFields{Seq: 1, Flags: header.TCPSyn}) }

// segment lets the guest send a segment without data on a pair.
func (x *team) segment(pair int, f header.TCPFields) {
	f.SrcPort, f.DstPort, f.Window = 5000, x.host, 0xffff
	x.send(pair, x.frame(header.ProtoTCP, header.TCPLen, func(b []byte) { header.PutTCP(b, &f, 0) }))
}

func (x *team) send(pair int, b []byte) {
	w := x.workers[pair]
	w.takeFrame([]iov.Vec{iov.Of(b)}, len(b))
	w.protos.endBatch()
}

// mail lets a worker read its mail.
func (x *team) mail(pair int) { x.workers[pair].others.takeMail() }

// settleMail lets all of them read until there is nothing more.
func (x *team) settleMail() {
	x.Helper()
	for range 100 {
		some := false
		for pair, w := range x.workers {
			if w.others.some.Load() {
				some = true
				x.mail(pair)
			}
		}
		if !some {
			return
		}
	}
	x.Fatal("the mail has no end")
}

// want checks how many flows each worker has, and that the directory knows where,
// and that nobody waits for any.
func (x *team) want(flows ...int) {
	x.Helper()
	owned := 0
	for pair, w := range x.workers {
		s := w.snapshot()
		if n := s.TCPFlows + s.UDPFlows; n != flows[pair] {
			x.Errorf("pair %d has %d flows, want %d", pair, n, flows[pair])
		}
		w.protos.eachFlow(func(k flowtable.Key, bound bool) {
			if o, ok := x.directory.find(&k); !ok || o != (owner{uint8(pair), bound}) {
				x.Errorf("pair %d has a flow of which the directory says %v, %v", pair, o, ok)
			}
			owned++
		})
		if n := len(w.others.awaited); n > 0 || w.others.keptBytes != 0 {
			x.Errorf("pair %d waits for %d flows, with %d bytes", pair, n, w.others.keptBytes)
		}
	}
	if n := x.directory.len(); n != owned {
		x.Errorf("the directory has %d flows, there are %d", n, owned)
	}
}

// heard returns what the host's socket got, which must be from one port.
func (x *team) heard() (got string) {
	x.Helper()
	var from unix.Sockaddr
	for end := time.Now().Add(time.Second); ; {
		var b [16]byte
		n, f, err := unix.Recvfrom(x.fd, b[:], 0)
		if err != nil {
			return got
		}
		got += string(b[:n])
		if from != nil && from.(*unix.SockaddrInet4).Port != f.(*unix.SockaddrInet4).Port {
			x.Error("datagrams come from several ports")
		}
		from = f
		if time.Now().After(end) {
			x.Fatal("no end of datagrams")
		}
	}
}

// overtake lets the last message in a worker's mail be the first.
func (x *team) overtake(pair int) {
	x.Helper()
	o := x.workers[pair].others
	if n := len(o.mail); n < 2 {
		x.Fatalf("%d messages", n)
	}
	last := len(o.mail) - 1
	o.mail[0], o.mail[last] = o.mail[last], o.mail[0]
}

// TestWantOvertakesFlow: the directory tells of a move before the flow has come, so
// that a third worker asks for it at a place where it is not yet.
func TestWantOvertakesFlow(t *testing.T) {
	withTeam(t, unix.SOCK_DGRAM, func(x *team) {
		x.datagram(0, 'a')
		x.datagram(1, 'b')
		x.mail(0)
		x.datagram(2, 'c')
		x.overtake(1)
		x.settleMail()
		x.want(0, 0, 1)
		if got := x.heard(); got != "abc" {
			t.Errorf("the host heard %q", got)
		}
	})
	withTeam(t, unix.SOCK_STREAM, func(x *team) {
		x.syn(0)
		ack := header.TCPFields{Seq: 2, Flags: header.TCPAck}
		x.segment(1, ack)
		x.mail(0)
		x.segment(2, ack)
		x.overtake(1)
		x.settleMail()
		x.want(0, 0, 1)
	})
}

// stopReading is what a fault in guest memory does to a worker that has begun to
// read its mail: the rest is for the next turn.
func (x *team) stopReading(pair int) {
	o := x.workers[pair].others
	o.reading, o.read, o.mail, o.mailBytes = o.mail, 0, nil, 0
	o.some.Store(false)
}

// TestEvacuateUnread: a pair is disabled whose worker has not come to read its mail.
func TestEvacuateUnread(t *testing.T) {
	for _, fault := range []bool{false, true} {
		withTeam(t, unix.SOCK_DGRAM, func(x *team) {
			x.datagram(0, 'a')
			x.datagram(1, 'b')
			x.mail(0)
			x.datagram(2, 'c')
			x.overtake(1)
			o := x.workers[1].others
			if fault {
				x.stopReading(1)
			} else { // the wish was read
				o.handle(&o.mail[0])
				o.mail = o.mail[1:]
			}
			x.active = []uint8{0, 2}
			o.evacuate(x.workers[0].others)
			x.settleMail()
			x.want(0, 0, 1)
			if got := x.heard(); got != "abc" {
				t.Errorf("the host heard %q", got)
			}
		})
	}
}

// openDescriptors counts those of the process.
func openDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestCloseUnread: what a worker has not come to read ends with the group.
func TestCloseUnread(t *testing.T) {
	withTeam(t, unix.SOCK_DGRAM, func(x *team) {
		was := openDescriptors(t)
		x.datagram(0, 'a')
		x.datagram(1, 'b')
		x.mail(0)
		x.stopReading(1)
		for _, w := range x.workers {
			w.others.close()
		}
		if n := openDescriptors(t); n != was {
			t.Errorf("%d descriptors, %d before", n, was)
		}
	})
}

// TestMailIsNotSleptOver: mail that came while a fault kept a worker from reading
// has woken it in vain.
func TestMailIsNotSleptOver(t *testing.T) {
	withTeam(t, unix.SOCK_DGRAM, func(x *team) {
		w := x.workers[0]
		x.datagram(0, 'a')
		w.appeared = false
		if ms := w.timeoutMs(); ms <= 0 {
			t.Fatalf("a worker without mail waits %d ms", ms)
		}
		x.datagram(1, 'b')
		x.stopReading(0)
		if ms := w.timeoutMs(); ms != 0 {
			t.Errorf("with a rest to read it waits %d ms", ms)
		}
		x.workers[2].others.post(0, message{kind: noFlow, from: 2, key: x.key(header.ProtoUDP)})
		x.mail(0) // the rest
		if ms := w.timeoutMs(); ms != 0 {
			t.Errorf("with new mail it waits %d ms", ms)
		}
		x.settleMail()
		x.want(0, 1, 0)
	})
}

// TestNobodyWakesTheDead: workers end one by one, and a poller that is closed is
// not to be written to: its descriptor may be another one's by then.
func TestNobodyWakesTheDead(t *testing.T) {
	withTeam(t, unix.SOCK_DGRAM, func(x *team) {
		first, last := x.workers[0], x.workers[2]
		woken := func() int {
			n := first.poll.Wait(0)
			first.events, first.nextEvent = 0, 0
			return n
		}
		woken() // by what has parked it
		last.link.GuestMAC = header.MAC{2, 0, 0, 0, 0, 9}
		last.others.tell()
		if woken() == 0 {
			t.Error("nobody was told that the guest is there")
		}
		x.facts.facts.mac = header.Broadcast
		for _, w := range x.workers {
			w.others.close()
		}
		last.link.GuestMAC = header.MAC{2, 0, 0, 0, 0, 8}
		last.others.tell()
		if woken() > 0 {
			t.Error("a closed worker was woken")
		}
	})
}

// arrive lets the host connect to the guest's port from the socket's, and the first
// worker accept that.
func (x *team) arrive() {
	x.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	x.must(err)
	x.Cleanup(func() { unix.Close(fd) })
	x.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	x.must(unix.Bind(fd, &unix.SockaddrInet4{Port: int(x.host), Addr: [4]byte{127, 0, 0, 1}}))
	port := x.Forwards()[0].FirstPort
	x.must(unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}))
	x.first.protos.tcp.ListenEvent(link.Token(onTCPListen, 0, 0))
}

// hasMail returns the pair whose worker has mail, or -1.
func (x *team) hasMail() int {
	for pair, w := range x.workers {
		if w.others.hasMail() {
			return pair
		}
	}
	return -1
}

// TestArrivalMeetsFlow: a connection of the host's side has the name of one of the
// guest's that is on its way between workers.
func TestArrivalMeetsFlow(t *testing.T) {
	withTeam(t, unix.SOCK_STREAM, func(x *team) {
		x.syn(0)
		x.segment(1, header.TCPFields{Seq: 2, Flags: header.TCPAck})
		x.mail(0)
		x.arrive()
		x.overtake(1)
		x.settleMail()
		x.want(0, 1, 0)
	})
}

// TestArrivalMeetsSyn: the guest begins a connection of that name elsewhere before
// the worker that is to have the host's has read its mail.
func TestArrivalMeetsSyn(t *testing.T) {
	withTeam(t, unix.SOCK_STREAM, func(x *team) {
		x.active = []uint8{1, 2}
		x.arrive()
		at := x.hasMail()
		if at < 1 {
			t.Fatalf("mail at %d", at)
		}
		flows := []int{0, 1, 1}
		flows[at] = 0
		x.syn(3 - at)
		x.settleMail()
		x.want(flows...)
	})
}

// TestArrivalAtDisabledPair: a pair is disabled whose worker was to have it.
func TestArrivalAtDisabledPair(t *testing.T) {
	withTeam(t, unix.SOCK_STREAM, func(x *team) {
		x.active = []uint8{1}
		x.arrive()
		x.active = []uint8{0, 2}
		x.workers[1].others.evacuate(x.first.others)
		x.settleMail()
		x.want(1, 0, 0)
	})
}

// TestSendOnlyPair: what the guest sends on a pair on which it does not receive goes
// where the flow is.
func TestSendOnlyPair(t *testing.T) {
	for _, c := range []struct {
		name   string
		active []uint8
		open   int // the pair on which the flow begins
		flows  []int
	}{
		{"flow elsewhere", []uint8{0, 2}, 2, []int{0, 0, 1}},
		{"flow nowhere", []uint8{0, 2}, 1, []int{1, 0, 0}},
		{"nowhere, and the first pair neither", []uint8{2}, 1, []int{0, 0, 1}},
		{"all of them", nil, 1, []int{1, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withTeam(t, unix.SOCK_DGRAM, func(x *team) {
				x.active = c.active
				x.datagram(c.open, 'a')
				x.settleMail()
				x.datagram(1, 'b')
				x.settleMail()
				x.want(c.flows...)
				if got := x.heard(); got != "ab" {
					t.Errorf("the host heard %q", got)
				}
			})
		})
	}
	t.Run("since it has asked", func(t *testing.T) {
		withTeam(t, unix.SOCK_DGRAM, func(x *team) {
			x.datagram(0, 'a')
			x.datagram(1, 'b')
			x.active = []uint8{0, 2}
			x.datagram(1, 'c')
			x.settleMail()
			x.want(1, 0, 0)
			if got := x.heard(); got != "abc" {
				t.Errorf("the host heard %q", got)
			}
		})
	})
}

// TestAnyOrder: workers read their mail whenever they like, mail of different
// senders comes in any order, pairs come and go: the guest's datagrams reach the
// host, each once and from one port.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		withTeam(t, unix.SOCK_DGRAM, func(x *team) {
			sent := 0
			for range 100 {
				switch pair := rng.IntN(3); rng.IntN(10) {
				case 0, 1, 2:
					x.datagram(pair, 'x')
					sent++
				case 3:
					x.comeAndGo(rng)
				case 4, 5:
					x.shuffle(rng, pair)
				default:
					x.mail(pair)
				}
			}
			x.settleMail()
			if n := x.directory.len(); n != min(sent, 1) {
				t.Errorf("seed %d: the directory has %d flows", seed, n)
			}
			flows := make([]int, 3)
			for pair, w := range x.workers {
				flows[pair] = w.snapshot().UDPFlows
			}
			x.want(flows...)
			if got := x.heard(); len(got) != sent {
				t.Errorf("seed %d: the host heard %d of %d datagrams", seed, len(got), sent)
			}
		})
	}
}

// comeAndGo enables and disables pairs, as settle finds them.
func (x *team) comeAndGo(rng *rand.Rand) {
	x.active = nil
	for pair := range x.workers {
		if rng.IntN(2) == 0 {
			x.active = append(x.active, uint8(pair))
		} else if pair > 0 {
			x.workers[pair].others.evacuate(x.first.others)
		}
	}
}

// shuffle lets a message overtake that of another sender.
func (x *team) shuffle(rng *rand.Rand, pair int) {
	mail := x.workers[pair].others.mail
	if len(mail) < 2 {
		return
	}
	if i := rng.IntN(len(mail) - 1); mail[i].from != mail[i+1].from {
		mail[i], mail[i+1] = mail[i+1], mail[i]
	}
}

// TestMailIsBounded: a guest's smallest frames take no more memory in the mail of
// another worker than its largest ones, and none when they are read.
func TestMailIsBounded(t *testing.T) {
	if n := reflect.TypeFor[message]().Size(); n > messageBytes {
		t.Errorf("a message has %d bytes", n)
	}
	withTeam(t, unix.SOCK_DGRAM, func(x *team) {
		from, to := x.workers[0].others, x.workers[1].others
		for range 2 {
			frames := 0
			for from.post(1, message{kind: takeFrame, frame: keptFrame{bytes: make([]byte, 1)}}) {
				if frames++; frames > maxMailBytes/messageBytes {
					t.Error("there is no bound")
					break
				}
			}
			if frames == 0 {
				t.Error("what was read takes room")
			}
			x.mail(1)
		}
		x.mail(1)
		if n := cap(to.mail) + cap(to.reading); n > 2*idleMessages {
			t.Errorf("room for %d messages is kept", n)
		}
		x.datagram(0, 'a')
		for range maxKeptBytes / messageBytes {
			x.datagram(2, 'b')
		}
		if c := x.workers[2].others.counters; c.Dropped == 0 {
			t.Errorf("%d frames wait for a flow", c.Kept)
		}
	})
}
