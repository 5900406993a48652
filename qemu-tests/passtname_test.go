package qemutests

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// passtXML is an interface for which libvirt starts the program passt.
const passtXML = `    <interface type='vhostuser'>
      <backend type='passt'/>
      <mac address='52:54:00:00:00:02'/>
      <source dev='v0'/>
      <ip address='` + passtGuest4 + `' family='ipv4' prefix='24'/>
      <portForward proto='tcp'><range start='5301' to='` + suitePort + `'/></portForward>
      <portForward proto='tcp' address='127.0.0.1'><range start='5400' end='5410'/><range start='5405' exclude='yes'/></portForward>
      <portForward proto='udp' address='` + lab.VMHost4 + `' dev='v0'><range start='5500'/></portForward>
      <model type='virtio'/>
    </interface>
`

// passtGuest4 is an address that only this guest has.
const passtGuest4 = "10.77.0.99"

// asPasst puts the backend under test where others look for passt, and returns its path in the tree.
func asPasst(t *testing.T, l *lab.Lab) string {
	t.Helper()
	if machine.Backend.InTree {
		return machine.Backend.Path
	}
	program, err := os.ReadFile(machine.Backend.Path)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(l.Dir, "passt")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLibvirtPasst: libvirt starts the backend in passt's place, and ends it with the domain.
func TestLibvirtPasst(t *testing.T) {
	if sandbox.InUserNS() {
		need(t, errors.New("libvirt's system daemon sets groups, which a normal user's namespace does not allow"))
	}
	ctx, l := newLab(t, 2*time.Minute)
	sh := startShell(ctx, t, l)
	if path := asPasst(t, l); !machine.Backend.InTree {
		sh.run(t, "ln -sf "+path+" /usr/bin/passt")
	}
	sh.run(t, libvirtSetUp)
	script := fmt.Sprintf(`step lease lease
step slaac slaac
step address sh -c 'ip -4 addr show dev eth0 | grep -F %s/24'
step ping4 reply %s
guest-agent serve %s &
step serve guest-agent tcp 127.0.0.1:%s 10
echo
echo @done
sleep 100000
`, passtGuest4, lab.Peer4, suitePort, suitePort)
	createDomain(t, l, sh, "first", script, passtXML)
	console := followFile(ctx, filepath.Join(l.Dir, "first.console"))
	if err := console.Finish(ctx); err != nil {
		t.Error(err)
	}
	checkSteps(t, &guest.VM{Console: console}, []string{"lease", "slaac", "address", "ping4", "serve"})
	checkForwards(ctx, t, l)
	sh.run(t, "set -- /run/libvirt/qemu/passt/*.pid; p=$(cat $1); grep -q 'Uid:.65534' /proc/$p/status && virsh destroy first"+
		" && for i in $(seq 50); do kill -0 $p 2>/dev/null || break; sleep 0.1; done; ! kill -0 $p 2>/dev/null && ! ls $1 2>/dev/null")
}

// checkForwards connects to the ports that lead to the guest's server, and to one that is left out.
func checkForwards(ctx context.Context, t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, at := range []struct {
		name, address string
		ns            *sandbox.NetNS
	}{
		{"own host", net.JoinHostPort("127.0.0.1", "5301"), l.VMHost},
		{"other host", net.JoinHostPort(lab.VMHost4, "5301"), l.Peer},
		{"other host, IPv6", net.JoinHostPort(lab.VMHost6, "5301"), l.Peer},
	} {
		var line string
		err := at.ns.Do(func() (err error) {
			line, err = lab.Digest(at.address, 4<<20)
			return err
		})
		if err != nil {
			t.Errorf("from the %s: %v", at.name, err)
			continue
		}
		note(t, "libvirt's portForward, from the %s: %s", at.name, line)
	}
	for port, open := range map[string]bool{"5404": true, "5405": false, "5406": true} {
		err := l.VMHost.Do(func() error {
			c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), time.Second)
			if err == nil {
				c.Close()
			}
			return err
		})
		// Nobody in the guest listens there, so that the connection may be reset before we look at it.
		if refused := errors.Is(err, syscall.ECONNREFUSED); refused == open || err != nil && !refused && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("port %s: %v, want it open: %v", port, err, open)
		}
	}
}

// TestQEMUPasst: QEMU starts the backend in passt's place, and hands it the socket.
func TestQEMUPasst(t *testing.T) {
	ctx, l := newLab(t, 2*time.Minute)
	options := "path=" + asPasst(t, l) + ",dns=" + lab.Peer4 + ",tcp-ports=" + suitePort + ",udp-ports=" + suitePort
	vm := startQEMU(ctx, t, l, guest.QEMUConfig{
		Config: guest.Config{Name: "q", Script: suiteScript(4 << 20)},
		Kernel: machine.Kernel, Passt: options,
	})
	checkSuite(ctx, t, l, vm)
}
