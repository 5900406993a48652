package qemutests

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// Addresses that stand for others in the guest, and a second one of VMHost.
const (
	mappedLoopback4, mappedLoopback6 = "10.77.0.51", "fd77::51"
	mappedGuest4                     = "10.77.0.50"
	second4                          = "10.77.0.7"
)

// sayPeer serves, on a port of a host, pages that say who asks, and whom.
func sayPeer(t *testing.T, ns *sandbox.NetNS, address string) {
	t.Helper()
	var l net.Listener
	if err := ns.Do(func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		at, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
		fmt.Fprintf(w, "from %s to %s\n", from, at)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
}

// TestMappings: addresses that stand for the host's loopback and for the host's services on the guest's address; a forwarded
// port that the guest itself uses; where connections to the outside come from.
func TestMappings(t *testing.T) {
	ctx, l := newLab(t, 2*time.Minute)
	if _, err := sandbox.Run(ctx, l.Command(l.VMHost, "ip", "addr", "add", second4+"/24", "dev", "v0")); err != nil {
		t.Fatal(err)
	}
	sayPeer(t, l.VMHost, "127.0.0.1:8101")
	sayPeer(t, l.VMHost, "[::1]:8101")
	sayPeer(t, l.VMHost, lab.VMHost4+":8102")
	sayPeer(t, l.Peer, lab.Peer4+":8103")
	socket := filepath.Join(l.Dir, "s")
	backend, err := l.StartBackend(ctx, machine.Backend, "backend", lab.Link{Path: socket}, "-t", suitePort,
		"--map-host-loopback", mappedLoopback4, "--map-host-loopback", mappedLoopback6, "--map-guest-addr", mappedGuest4,
		"-o", second4, "--outbound-if4", "v0", "--outbound-if6", "v0", "--no-map-gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		backend.Kill()
		logOnFailure(t, l, "backend")
	})
	config, _ := guest.UMLs(l)
	config.Config = guest.Config{Name: "u", Socket: socket, Script: strings.NewReplacer(
		"LO4", mappedLoopback4, "LO6", mappedLoopback6, "GUEST4", mappedGuest4, "PEER4", lab.Peer4, "SECOND4", second4,
		"HOST4", lab.VMHost4, "PORT", suitePort,
	).Replace(`
page() { busybox wget -q -T 5 -O - "http://$1/" 2>&1 | grep -F -x "$2"; }
closed() { ! busybox wget -q -T 3 -O /dev/null "http://$1/"; }
step lease lease || exit
step slaac slaac || exit
step loopback4 page LO4:8101 'from 127.0.0.1 to 127.0.0.1'
step loopback6 page '[LO6]:8101' 'from ::1 to ::1'
step host-service page GUEST4:8102 'from SECOND4 to HOST4'
step outbound page PEER4:8103 'from SECOND4 to PEER4'
step gateway-is-no-loopback closed $(gateway4):8101
step gateway6-is-no-loopback closed "[$(gateway6)%eth0]:8101"
guest-agent serve PORT &
step serve guest-agent tcp 127.0.0.1:PORT 10
step hairpin guest-agent tcp GUEST4:PORT 100000
step ping reply PEER4
`)}
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	if err := vm.Console.Finish(ctx); err != nil {
		t.Error(err)
	}
	checkSteps(t, vm, []string{
		"lease", "slaac", "loopback4", "loopback6", "host-service", "outbound", "gateway-is-no-loopback",
		"gateway6-is-no-loopback", "serve", "hairpin", "ping",
	})
}
