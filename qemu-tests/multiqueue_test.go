package qemutests

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// manyScript has eight streams at a time, each checked byte for byte, while the number of queue pairs changes under them.
func manyScript(pairs int) string {
	return fmt.Sprintf(`
step lease lease || exit
step slaac slaac
queues() { ethtool -L eth0 combined %[1]d; ethtool -l eth0 | tail -n 2 | grep -w %[1]d; }
step queues queues
guest-agent serve %[2]s &
step serve guest-agent tcp 127.0.0.1:%[2]s 10
many() {
	pids=
	for i in 1 2 3 4; do
		guest-agent upload %[3]s 24000000 >/tmp/u$i 2>&1 & pids="$pids $!"
		guest-agent download '%[4]s' >/tmp/d$i 2>&1 & pids="$pids $!"
	done
	(while true; do for n in 1 %[1]d 2; do ethtool -L eth0 combined $n; sleep 0.3; done; done) >/dev/null 2>&1 & changer=$!
	rc=0
	for p in $pids; do wait $p || rc=1; done
	[ $1 = change ] && sleep 1
	kill $changer
	[ $rc = 0 ] || tail -n 1 /tmp/[ud]?
	return $rc
}
step change many change
step queues-again queues
step udp4 guest-agent udp %[5]s:%[6]d 1 1472 9000
step udp6 guest-agent udp [%[7]s]:%[6]d 1 1472 9000
step ping4 reply %[5]s
step ping6 reply %[7]s
`, pairs, suitePort, peer.URL(lab.Peer4, "digest"), peer.URL(lab.Peer6, "blob?bytes=24000000"), lab.Peer4, peer.EchoPort, lab.Peer6)
}

func TestMultiqueueQEMU(t *testing.T) {
	for _, pairs := range []int{2, 4} {
		t.Run(fmt.Sprintf("queues=%d", pairs), func(t *testing.T) {
			ctx, l := newLab(t, 4*time.Minute)
			socket := filepath.Join(l.Dir, "s")
			backend := startBackend(ctx, t, l, lab.Link{Path: socket})
			vm := startQEMU(ctx, t, l, guest.QEMUConfig{
				Config: guest.Config{Name: "q", Script: manyScript(pairs), Socket: socket},
				Kernel: machine.Kernel, CPUs: pairs,
				Netdev: fmt.Sprintf(",queues=%d", pairs), Device: fmt.Sprintf(",mq=on,vectors=%d", 2*pairs+2),
			})
			if _, err := vm.Console.Step(ctx, "serve", 1); err != nil {
				t.Fatal(err)
			}
			var line string
			for range 8 {
				err := l.VMHost.Do(func() (err error) {
					line, err = lab.Digest(net.JoinHostPort("127.0.0.1", suitePort), 4<<20)
					return err
				})
				if err != nil {
					t.Errorf("to the guest's server: %v", err)
				}
			}
			note(t, "the last of 8 times to the guest's server: %s", line)
			if err := vm.Console.Finish(ctx); err != nil {
				t.Error(err)
			}
			checkSteps(t, vm, []string{"lease", "slaac", "queues", "change", "queues-again", "udp4", "udp6", "ping4", "ping6"})
			checkPairs(ctx, t, l, backend, pairs)
		})
	}
}

var pairCounters = regexp.MustCompile(`counters: pair=(\d+) .*FramesFromGuest:(\d+).* moves="?\{([^}]*)\}`)

// checkPairs asks the backend for its counters: each queue pair must have been used.
func checkPairs(ctx context.Context, t *testing.T, l *lab.Lab, backend *sandbox.Process, pairs int) {
	t.Helper()
	pid, err := backend.PID()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var found [][]string
	err = lab.WaitFor(ctx, 5*time.Second, "the backend has not told its counters", func() bool {
		text, _ := os.ReadFile(filepath.Join(l.Dir, "backend.log"))
		found = pairCounters.FindAllStringSubmatch(string(text), -1)
		return len(found) >= pairs
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range found {
		if n, _ := strconv.Atoi(m[2]); n < 100 {
			t.Errorf("queue pair %s had %d frames of the guest", m[1], n)
		}
		all = append(all, fmt.Sprintf("%s: %s frames, %s", m[1], m[2], m[3]))
	}
	note(t, "queue pairs: %s", strings.Join(all, "; "))
}
