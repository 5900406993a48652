package gvguest_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// usage counts what a process can leak.
type usage struct{ fds, goroutines int }

func measure(t testing.TB) usage {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return usage{len(fds), runtime.NumGoroutine()}
}

// checkUsage fails the test unless usage comes back to before.
func checkUsage(t testing.TB, before usage) {
	t.Helper()
	var now usage
	for range 500 {
		if now = measure(t); now.fds <= before.fds && now.goroutines <= before.goroutines {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("usage is %+v, was %+v before", now, before)
	if now.goroutines > before.goroutines {
		buf := make([]byte, 1<<16)
		t.Logf("%s", buf[:runtime.Stack(buf, true)])
	}
}

// dump logs the state of a test that hangs.
func (b *bench) dump() {
	b.Helper()
	for range 2 {
		s := b.worker.Snapshot()
		b.Logf("worker: %+v\nqueue: %+v\nTCP: %+v, %d flows", s.Counters, s.Queue, s.TCP, s.TCPFlows)
		if b.guest != nil {
			for _, r := range []*gvguest.Ring{b.rings.Rx, b.rings.Tx} {
				flags, used := r.Ring().Used()
				b.Logf("ring: used %d flags %d avail event %d", used, flags, r.Ring().AvailEvent())
			}
			b.Logf("guest: %d segments retransmitted, %d frames received", b.guest.Stack.Stats().TCP.Retransmits.Value(), b.guest.NIC.Received())
			for _, e := range append(b.guest.Stack.RegisteredEndpoints(), b.guest.Stack.CleanupEndpoints()...) {
				if e, ok := e.(*tcp.Endpoint); ok {
					b.Logf("guest: %v", e.EndpointState())
				}
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	b.Logf("%v", b.tap)
}
