package gvguest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// daemon is a bench whose rings come by the vhost-user protocol: all of the
// program but its options.
type daemon struct {
	*bench
	dev    *device
	server *vhostuser.Server
	log    *logLines

	fe     *vutest.Frontend
	vm     *vutest.Guest
	served chan struct{} // closed when the server is done with fe
}

// logLines collects what the server logs.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

// take returns the lines with the given text since the last time.
func (l *logLines) take(text string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.lines {
		if strings.Contains(s, text) {
			out = append(out, s)
		}
	}
	l.lines = nil
	return out
}

func newDaemon(t *testing.T, s setup) *daemon {
	t.Helper()
	d := &daemon{dev: &device{offers: s.features}, log: new(logLines)}
	var err error
	d.server, err = vhostuser.New(vhostuser.Config{
		Device: d.dev,
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: d.log}),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.bench = newBenchWith(t, s, func(tx bool, err error) { d.server.RingBroken(map[bool]int{false: 0, true: 1}[tx], err) })
	d.dev.worker = d.worker
	t.Cleanup(func() { // before the bench's own
		if d.guest != nil {
			d.eventually("flows are gone", func() bool { return d.flows() == 0 })
			d.guest.Close()
			d.gone()
		}
		d.leave()
		if d.dev.failed != nil {
			t.Error(d.dev.failed)
		}
	})
	return d
}

func (d *daemon) flows() int { return d.worker.Snapshot().TCPFlows }

// memory makes a guest's memory: two regions, so that frames lie in both.
func (d *daemon) memory() {
	d.Helper()
	mem, err := vutest.NewMemory(
		vutest.Span{GuestAddr: 0, Size: 2 << 20},
		vutest.Span{GuestAddr: 1 << 32, Size: d.setup.memBytes, FileOffset: 4096},
	)
	d.must(err)
	cfg := virtqtest.Config{
		Size: d.setup.ringSize, EventIdx: d.setup.features&featureEventIdx != 0, Indirect: d.setup.features&featureIndirect != 0,
	}
	d.vm, err = vutest.NewGuest(mem, 2, cfg)
	d.must(err)
}

// boot starts a guest and the frontend of a new connection.
func (d *daemon) boot(style vutest.Style) *daemon {
	d.Helper()
	d.memory()
	d.rings = gvguest.RingsOf(d.vm)
	d.start()
	d.connect(style)
	_, err := d.fe.Start(d.vm, d.setup.features)
	d.must(err)
	return d
}

// connect makes a frontend and negotiates.
func (d *daemon) connect(style vutest.Style) {
	d.Helper()
	fe, end, err := vutest.Pair(style)
	d.must(err)
	d.fe, d.served = fe, make(chan struct{})
	go func(done chan struct{}) {
		d.server.ServeConn(context.Background(), end)
		close(done)
	}(d.served)
	d.must(fe.Connect())
}

// leave ends the connection, and waits until the server has let go.
func (d *daemon) leave() {
	d.Helper()
	if d.fe == nil {
		return
	}
	d.fe.Close()
	d.fe = nil
	select {
	case <-d.served:
	case <-time.After(patience):
		d.Fatal("the server does not let go of the connection")
	}
	if d.vm != nil {
		mem := d.vm.Memory
		d.must(d.vm.Close())
		d.must(mem.Close())
		d.vm = nil
	}
}

// gone checks a guest that was halted, and forgets it.
func (d *daemon) gone() {
	d.Helper()
	if err := d.guest.NIC.Err(); err != nil {
		d.Error(err)
	}
	d.guest = nil
}

func styles() []vutest.Style {
	return []vutest.Style{vutest.QEMU, vutest.UML, vutest.DPDK, vutest.CloudHypervisor}
}

// TestDaemon moves data over all routes by way of every kind of frontend, while
// that stops and starts the rings and replaces the guest's memory.
func TestDaemon(t *testing.T) {
	for i, style := range styles() {
		s := setups()[i]
		t.Run(style.String()+"/"+s.name, func(t *testing.T) {
			d := newDaemon(t, s).boot(style)
			n := scaled(1 << 20)
			if style == vutest.CloudHypervisor || style == vutest.DPDK {
				n = crumbs // they disable rings before they stop them
			}
			d.trafficOf(n, func() {
				for range 10 {
					time.Sleep(20 * time.Millisecond)
					d.must(d.fe.SetMemTable(d.vm.Memory))
					for _, q := range d.vm.Queues {
						d.must(d.fe.SetCall(q))
					}
					if style == vutest.UML {
						continue // never stops
					}
					time.Sleep(10 * time.Millisecond)
					d.must(d.fe.Stop())
					time.Sleep(5 * time.Millisecond)
					_, err := d.fe.Start(d.vm, s.features)
					d.must(err)
				}
			})
		})
	}
}
