package vutest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// sink is a device without workers: it swallows what is in its transmit rings
// whenever it is parked.
type sink struct {
	queues [2]*virtqueue.Queue
	call   [2]vhostuser.Caller
	frames atomic.Int64
}

func (*sink) Features() uint64         { return 1 << 32 }
func (*sink) NumQueues() int           { return 2 }
func (*sink) SetFeatures(uint64) error { return nil }
func (*sink) ConfigSpace() []byte      { return nil }
func (*sink) SetMTU(uint16) error      { return errors.New("no MTU here") }
func (*sink) SendRARP([6]byte)         {}
func (*sink) Reset()                   {}

func (s *sink) Park(f func()) {
	f()
	if s.queues[1] == nil {
		return
	}
	for {
		_, token, err := s.queues[1].Take(nil)
		if err != nil {
			break
		}
		s.queues[1].Return(token, 0)
		s.frames.Add(1)
	}
	if s.queues[1].Publish() {
		s.call[1].Call()
	}
}

func (s *sink) StartQueue(i int, q *virtqueue.Queue, _ int, call vhostuser.Caller) {
	s.queues[i], s.call[i] = q, call
}
func (s *sink) StopQueue(i int)     { s.queues[i] = nil }
func (*sink) EnableQueue(int, bool) {}

// backend serves a sink to a new frontend until the test ends.
func backend(t testing.TB, style vutest.Style, change func(*vhostuser.Config)) (*vutest.Frontend, *sink) {
	t.Helper()
	s := new(sink)
	cfg := vhostuser.Config{Device: s}
	if change != nil {
		change(&cfg)
	}
	srv, err := vhostuser.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	fe, end, err := vutest.Pair(style)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	go func() { done <- srv.ServeConn(context.Background(), end) }()
	t.Cleanup(func() {
		fe.Close()
		<-done
	})
	return fe, s
}

// TestStyles brings a guest up in each style, against a backend with all
// protocol features and against one with as few as passt has.
func TestStyles(t *testing.T) {
	few := func(c *vhostuser.Config) { c.ProtocolFeatures = wire.ProtocolRARP | wire.ProtocolReplyAck }
	for _, style := range []vutest.Style{vutest.QEMU, vutest.UML, vutest.DPDK, vutest.CloudHypervisor} {
		for name, change := range map[string]func(*vhostuser.Config){"all": nil, "few": few} {
			t.Run(fmt.Sprintf("%v/%s", style, name), func(t *testing.T) {
				fe, dev := backend(t, style, change)
				if err := fe.Connect(); err != nil {
					t.Fatal(err)
				}
				g := guest(t)
				tx := g.Queues[1]
				addr, err := g.Memory.Alloc(100, 1)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Add([]virtqtest.Buffer{{Addr: addr, Len: 100}}, nil); err != nil {
					t.Fatal(err)
				}
				if err := tx.Kick(); err != nil {
					t.Fatal(err)
				}
				acked, err := fe.Start(g, 1<<32|1<<5)
				if err != nil {
					t.Fatal(err)
				}
				if want := uint64(1<<32) | wire.FeatureProtocol; acked != want {
					t.Errorf("acknowledged %#x, want %#x", acked, want)
				}
				if _, err := tx.WaitUsed(time.Second); err != nil {
					t.Fatal(err)
				}
				if err := fe.Stop(); err != nil {
					t.Fatal(err)
				}
				if style != vutest.UML && tx.Base != 1 {
					t.Errorf("stopped at %d, want 1", tx.Base)
				}
				if n := dev.frames.Load(); n != 1 {
					t.Errorf("device got %d frames", n)
				}
			})
		}
	}
}

func guest(t testing.TB) *vutest.Guest {
	t.Helper()
	mem, err := vutest.NewMemory(vutest.Span{Size: 1 << 20}, vutest.Span{GuestAddr: 1 << 32, Size: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	g, err := vutest.NewGuest(mem, 2, virtqtest.Config{Size: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		mem.Close()
	})
	return g
}

// TestAckError: the frontend learns what has failed.
func TestAckError(t *testing.T) {
	fe, _ := backend(t, vutest.QEMU, nil)
	if err := fe.Connect(); err != nil {
		t.Fatal(err)
	}
	mtu := wire.U64(1500)
	err := fe.Do(wire.NetSetMTU, &mtu)
	if ack, ok := errors.AsType[*vutest.AckError](err); !ok || ack.Request != wire.NetSetMTU || ack.Value == 0 {
		t.Errorf("got %v", err)
	}
}

// TestMemoryErrors: what cannot be made is an error and leaves nothing open.
func TestMemoryErrors(t *testing.T) {
	for name, spans := range map[string][]vutest.Span{
		"overlap":    {{Size: 8192}, {GuestAddr: 4096, Size: 4096}},
		"odd offset": {{Size: 4096, FileOffset: 1}},
		"empty":      {{}},
	} {
		if _, err := vutest.NewMemory(spans...); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	mem, err := vutest.NewMemory(vutest.Span{Size: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	if _, err := vutest.NewGuest(mem, 2, virtqtest.Config{Size: 256}); err == nil {
		t.Error("rings that do not fit were accepted")
	}
}

func TestStopBeforeStart(t *testing.T) {
	fe, _, err := vutest.Pair(vutest.QEMU)
	if err != nil {
		t.Fatal(err)
	}
	defer fe.Close()
	if err := fe.Stop(); err == nil {
		t.Error("no error")
	}
}

// A frontend and its guest bring a backend up, send one frame and go.
func Example() {
	srv, err := vhostuser.New(vhostuser.Config{Device: new(sink)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fe, end, err := vutest.Pair(vutest.QEMU)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan int)
	go func() { done <- srv.ServeConn(context.Background(), end) }()

	mem, err := vutest.NewMemory(vutest.Span{Size: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mem.Close()
	g, err := vutest.NewGuest(mem, 2, virtqtest.Config{Size: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	if err := fe.Connect(); err != nil {
		fmt.Println(err)
		return
	}
	addr, err := mem.Alloc(60, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := g.Queues[1].Add([]virtqtest.Buffer{{Addr: addr, Len: 60}}, nil); err != nil {
		fmt.Println(err)
		return
	}
	g.Queues[1].Publish()
	if _, err := fe.Start(g, 1<<32); err != nil {
		fmt.Println(err)
		return
	}
	used, err := g.Queues[1].WaitUsed(time.Second)
	fmt.Println(used.Len, err)
	fe.Close()
	<-done
	// Output: 0 <nil>
}
