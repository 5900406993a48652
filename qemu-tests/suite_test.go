package qemutests

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
)

// suitePort is the guest's server that the backend forwards to.
const suitePort = "5201"

// suiteSteps are the reports that the suite's script makes, in order.
var suiteSteps = []string{
	"lease", "slaac", "ping-gateway4", "ping-gateway6", "ping-peer4", "ping-peer6", "resolve4", "resolve6", "udp4", "udp6",
	"download4", "download6", "upload4", "upload6", "serve", "host",
}

// suiteScript checks from inside the guest all that a guest can check; the host connects while step "host" waits.
func suiteScript(transferBytes int) string {
	get4 := peer.URL(lab.Peer4, fmt.Sprintf("blob?bytes=%d", transferBytes))
	get6 := peer.URL(lab.Peer6, fmt.Sprintf("blob?bytes=%d", transferBytes))
	return fmt.Sprintf(`
step lease lease || exit
step slaac slaac
step ping-gateway4 reply $(gateway4)
step ping-gateway6 reply $(gateway6)
step ping-peer4 reply %[1]s
step ping-peer6 reply %[2]s
step resolve4 resolve %[3]s %[1]s
step resolve6 resolve %[3]s %[2]s
step udp4 guest-agent udp %[1]s:%[4]d 1 1472 9000
step udp6 guest-agent udp [%[2]s]:%[4]d 1 1472 9000
step download4 guest-agent download '%[5]s'
step download6 guest-agent download '%[6]s'
step upload4 guest-agent upload %[7]s %[9]d
step upload6 guest-agent upload %[8]s %[9]d
guest-agent serve %[10]s &
step serve guest-agent tcp 127.0.0.1:%[10]s 10
# the host's client raises a flag when it is done
wait_host() { i=0; while [ $i -lt 300 ]; do busybox wget -q -O /dev/null '%[11]s' 2>/dev/null && return 0; i=$((i+1)); sleep 0.1; done; return 1; }
step host wait_host
`, lab.Peer4, lab.Peer6, lab.PeerName, peer.EchoPort, get4, get6, peer.URL(lab.Peer4, "digest"), peer.URL(lab.Peer6, "digest"),
		transferBytes, suitePort, peer.URL(lab.Peer4, "flag"))
}

// checkSuite follows a guest that runs the suite's script to its end.
func checkSuite(ctx context.Context, t *testing.T, l *lab.Lab, vm *guest.VM) {
	t.Helper()
	if _, err := vm.Console.Step(ctx, "serve", 1); err != nil {
		t.Fatal(err)
	}
	for _, from := range []struct{ name, address string }{
		{"own host, IPv4", "127.0.0.1"}, {"own host, IPv6", "::1"}, {"other host, IPv4", lab.VMHost4}, {"other host, IPv6", lab.VMHost6},
	} {
		ns := l.VMHost
		if strings.HasPrefix(from.name, "other") {
			ns = l.Peer
		}
		var line string
		err := ns.Do(func() (err error) {
			line, err = lab.Digest(net.JoinHostPort(from.address, suitePort), 16<<20)
			return err
		})
		if err != nil {
			t.Errorf("to the guest's server from the %s: %v", from.name, err)
			continue
		}
		note(t, "to the guest's server from the %s: %s", from.name, line)
	}
	l.Servers.Flag()
	if err := vm.Console.Finish(ctx); err != nil {
		t.Error(err)
	}
	checkSteps(t, vm, suiteSteps)
}

// checkSteps demands one good report of every step in want.
func checkSteps(t *testing.T, vm *guest.VM, want []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range vm.Console.Steps() {
		seen[s.Name] = true
		word := "ok  "
		if !s.OK {
			word = "FAIL"
			t.Errorf("step %s failed: %s", s.Name, s.Detail)
		}
		note(t, "%s %-14s %s", word, s.Name, s.Detail)
	}
	for _, name := range want {
		if !seen[name] {
			t.Errorf("the guest did not report step %s", name)
		}
	}
	if t.Failed() {
		t.Logf("console:\n%s", vm.Console.Tail(60))
	}
}
