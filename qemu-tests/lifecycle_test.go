package qemutests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// busyScript configures the guest once and then keeps traffic going in both directions until the guest is stopped.
var busyScript = fmt.Sprintf(`
step lease lease || exit
step slaac slaac || exit
guest-agent serve %[1]s &
guest-agent beat %[2]s:%[3]d 20 &
while true; do iperf3 -c %[2]s -t 600 >/dev/null 2>&1; sleep 0.1; done &
step serve guest-agent tcp 127.0.0.1:%[1]s 10
sleep 100000
`, suitePort, lab.Peer4, peer.BeatPort)

// backWithin is how long the network may be gone after a backend has come back.
const backWithin = 2 * time.Second

// startBusy boots a QEMU guest, its network device with more options, that runs busyScript, and waits until it is busy.
func startBusy(ctx context.Context, t *testing.T, l *lab.Lab, device string) *guest.VM {
	t.Helper()
	server, err := l.Start(ctx, l.Peer, "iperf3", "iperf3", "-s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	vm := startQEMU(ctx, t, l, guest.QEMUConfig{
		Config: guest.Config{Name: "q", Script: busyScript, Socket: filepath.Join(l.Dir, "s")},
		Kernel: machine.Kernel, ReconnectMs: 100, Device: device,
	})
	if s, err := vm.Console.Step(ctx, "serve", 1); err != nil || !s.OK {
		t.Fatal(s, err)
	}
	return vm
}

// TestBackendRestart kills the backend under load. The guest does nothing about it: what it had must work again.
func TestBackendRestart(t *testing.T) {
	ctx, l := newLab(t, 3*time.Minute)
	link := lab.Link{Path: filepath.Join(l.Dir, "s")}
	backend := startBackend(ctx, t, l, link)
	vm := startBusy(ctx, t, l, "")
	restart(ctx, t, l, link, backend, 10)
	if t.Failed() {
		t.Logf("console:\n%s", vm.Console.Tail(20))
	}
}

// restart kills the backend of a busy guest, at some moment, and starts another one, so many times.
func restart(ctx context.Context, t *testing.T, l *lab.Lab, link lab.Link, backend *sandbox.Process, times int) {
	t.Helper()
	var worstOut, worstIn time.Duration
	for n := range times {
		time.Sleep(time.Duration(500+rand.IntN(700)) * time.Millisecond)
		backend.Kill()
		backend = startBackend(ctx, t, l, link)
		out, in, err := timeToTraffic(ctx, l)
		if err != nil {
			t.Errorf("restart %d: %v", n+1, err)
			break
		}
		worstOut, worstIn = max(worstOut, out), max(worstIn, in)
	}
	note(t, "%d restarts under iperf3: slowest return %d ms from the guest, %d ms into the guest",
		times, worstOut.Milliseconds(), worstIn.Milliseconds())
	if worstOut > backWithin || worstIn > backWithin {
		t.Errorf("want the network back within %v", backWithin)
	}
}

// timeToTraffic measures from now to the first datagram from the guest and to the first connection that its server answers.
func timeToTraffic(ctx context.Context, l *lab.Lab) (out, in time.Duration, err error) {
	start := time.Now()
	err = lab.WaitFor(ctx, 3*backWithin, "no datagram from the guest", func() bool {
		at, ok := l.Servers.FirstBeatAfter(start)
		out = at.Sub(start)
		return ok
	})
	if err != nil {
		return 0, 0, err
	}
	var last error
	err = lab.WaitFor(ctx, 3*backWithin, "no connection to the guest", func() bool {
		last = l.VMHost.Do(func() error { return lab.Exchange("127.0.0.1:" + suitePort) })
		in = time.Since(start)
		return last == nil
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return out, in, err
}

func TestStopCont(t *testing.T) {
	ctx, l := newLab(t, 2*time.Minute)
	backend := startBackend(ctx, t, l, lab.Link{Path: filepath.Join(l.Dir, "s")})
	vm := startBusy(ctx, t, l, "")
	before := usage(t, backend)
	for n := range 5 {
		if err := vm.Control("stop"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		stopped := time.Now()
		time.Sleep(500 * time.Millisecond)
		if _, ok := l.Servers.FirstBeatAfter(stopped); ok {
			t.Error("a stopped guest sends")
		}
		if err := vm.Control("cont"); err != nil {
			t.Fatal(err)
		}
		out, in, err := timeToTraffic(ctx, l)
		if err != nil || out > backWithin || in > backWithin {
			t.Fatalf("stop and cont %d: %v from the guest, %v into the guest, %v", n+1, out, in, err)
		}
	}
	checkLeaks(t, backend, before)
}

func TestDriverReload(t *testing.T) {
	ctx, l := newLab(t, 3*time.Minute)
	backend := startBackend(ctx, t, l, lab.Link{Path: filepath.Join(l.Dir, "s")})
	vm := startQEMU(ctx, t, l, guest.QEMUConfig{
		Config: guest.Config{Name: "q", Socket: filepath.Join(l.Dir, "s"), Script: fmt.Sprintf(`
m=$(ls /modules/*virtio_net.ko)
up() { step lease lease && step upload4 guest-agent upload %s 1000000; }
up
for i in $(seq 20); do
	step unload rmmod virtio_net
	step load insmod $m
	up
done
step slaac slaac && step upload6 guest-agent upload %s 1000000
`, peer.URL(lab.Peer4, "digest"), peer.URL(lab.Peer6, "digest"))},
		Kernel: machine.Kernel,
	})
	if _, err := vm.Console.Step(ctx, "upload4", 2); err != nil {
		t.Fatal(err)
	}
	before := usage(t, backend)
	s, err := vm.Console.Step(ctx, "upload6", 1)
	if err != nil {
		t.Error(err)
	}
	for _, s := range vm.Console.Steps() {
		if !s.OK {
			t.Errorf("step %s failed: %s", s.Name, s.Detail)
		}
	}
	note(t, "20 times rmmod, insmod, lease, upload; then IPv6: %s", s.Detail)
	checkLeaks(t, backend, before)
}

func TestGuestReboot(t *testing.T) {
	ctx, l := newLab(t, 8*time.Minute)
	backend := startBackend(ctx, t, l, lab.Link{Path: filepath.Join(l.Dir, "s")})
	vm := startQEMU(ctx, t, l, guest.QEMUConfig{
		Config: guest.Config{Name: "q", Socket: filepath.Join(l.Dir, "s"), Script: fmt.Sprintf(`
step lease lease
step upload4 guest-agent upload %s 1000000
step slaac slaac
step upload6 guest-agent upload %s 1000000
sleep 100000
`, peer.URL(lab.Peer4, "digest"), peer.URL(lab.Peer6, "digest"))},
		Kernel: machine.Kernel,
	})
	var before lab.Usage
	for boot := 1; boot <= 11; boot++ {
		if _, err := vm.Console.Step(ctx, "upload4", boot); err != nil {
			t.Fatalf("boot %d: %v", boot, err)
		}
		switch {
		case boot == 2:
			before = usage(t, backend)
			fallthrough
		case boot < 11:
			if err := vm.Control("system_reset"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := vm.Console.Step(ctx, "upload6", 1); err != nil {
		t.Error(err)
	}
	for _, s := range vm.Console.Steps() {
		if !s.OK {
			t.Errorf("step %s failed: %s", s.Name, s.Detail)
		}
	}
	note(t, "rebooted 10 times")
	checkLeaks(t, backend, before)
}

func usage(t *testing.T, p *sandbox.Process) lab.Usage {
	t.Helper()
	pid, err := p.PID()
	if err != nil {
		t.Fatal(err)
	}
	u, err := lab.ReadUsage(pid)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// checkLeaks compares a backend with what it held before. Go keeps freed memory and threads for a while, so these may grow, but
// not with the number of repetitions; descriptors that are left have a bug.
func checkLeaks(t *testing.T, p *sandbox.Process, before lab.Usage) {
	t.Helper()
	// Flows of a guest that is gone may linger for the time it takes to close them.
	deadline := time.Now().Add(5 * time.Second)
	after := usage(t, p)
	for after.Files > before.Files+4 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
		after = usage(t, p)
	}
	note(t, "backend before: %v", before)
	note(t, "backend after:  %v", after)
	if after.Files > before.Files+4 || after.Threads > before.Threads+3 || after.RSSKiB > before.RSSKiB+12*1024 {
		t.Error("the backend leaks")
	}
}
