// Command run-vm shows the backend at work: it boots a VM under QEMU on it, between two test hosts that exist only inside this
// program, tells in a few lines what the VM saw of the network, and then gives the VM's console if there is a terminal.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

const (
	hostPort, guestPort = "8080", "80"
	stepTimeout         = 90 * time.Second
)

func main() {
	ctx := context.Background()
	h, err := harness.Enter(ctx, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err == nil {
		err = demonstrate(ctx, h)
		err = errors.Join(err, h.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run-vm:", err)
		os.Exit(1)
	}
}

func demonstrate(ctx context.Context, h *harness.Harness) error {
	l, err := h.NewLab(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	accel := guest.Accel(ctx, l, h.Kernel, h.Cache.Dir)
	socket := filepath.Join(l.Dir, "s")
	backend, err := l.StartBackend(ctx, h.Backend, "backend", lab.Link{Path: socket}, "-t", hostPort+":"+guestPort)
	if err != nil {
		return err
	}
	defer backend.Kill()
	fmt.Printf("%s is running without privileges; booting Linux under QEMU (%s) on it ...\n", h.Backend.Name, accel)

	interactive := sandbox.IsTerminal(os.Stdin) && sandbox.IsTerminal(os.Stdout)
	config := guest.QEMUConfig{
		Config: guest.Config{Name: "vm", Socket: socket, Script: script(interactive)},
		Kernel: h.Kernel, Accel: accel, Monitor: interactive,
	}
	if interactive {
		config.Stdin, config.Foreground = os.Stdin, true
	}
	vm, err := guest.StartQEMU(ctx, l, config)
	if err != nil {
		return err
	}
	defer vm.Stop()
	if err := show(ctx, l, vm); err != nil {
		return err
	}
	if interactive {
		fmt.Print("\nThe VM's console; \"exit\" or Ctrl-A X ends it.\n\n")
		vm.Console.Show(os.Stdout)
		l.Servers.Flag()
		<-vm.Process.Done()
		return nil
	}
	l.Servers.Flag()
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return vm.Console.Finish(ctx)
}

// lines are the guest's reports in the order in which they come, with the words for a reader; none: for us only.
var lines = []struct{ step, meaning string }{
	{"lease", "IPv4 address by DHCP"},
	{"slaac", "IPv6 address by SLAAC"},
	{"ping4", "ping " + lab.Peer4},
	{"ping6", "ping " + lab.Peer6},
	{"resolve", "name server"},
	{"download", "TCP download, IPv4"},
	{"upload", "TCP upload, IPv6"},
	{"serve", ""},
}

func script(interactive bool) string {
	s := fmt.Sprintf(`
step lease lease
step slaac slaac
step ping4 reply %[1]s
step ping6 reply %[2]s
step resolve resolve %[3]s %[1]s
step download guest-agent download '%[4]s'
step upload guest-agent upload '%[5]s' 67108864
guest-agent serve %[6]s &
step serve guest-agent tcp 127.0.0.1:%[6]s 10
i=0; until busybox wget -q -O /dev/null '%[7]s' 2>/dev/null || [ $i -gt 600 ]; do i=$((i+1)); sleep 0.1; done
`, lab.Peer4, lab.Peer6, lab.PeerName, peer.URL(lab.Peer4, "blob?bytes=67108864"), peer.URL(lab.Peer6, "digest"), guestPort,
		peer.URL(lab.Peer4, "flag"))
	if interactive {
		s += "stty sane; setsid cttyhack sh\n"
	}
	return s
}

// show prints the guest's reports as they come, and then uses its server from the host.
func show(ctx context.Context, l *lab.Lab, vm *guest.VM) error {
	failed := 0
	for _, line := range lines {
		stepCtx, cancel := context.WithTimeout(ctx, stepTimeout)
		s, err := vm.Console.Step(stepCtx, line.step, 1)
		cancel()
		if err != nil {
			return err
		}
		word := "ok  "
		if !s.OK {
			word = "FAIL"
			failed++
		}
		if line.meaning != "" || !s.OK {
			fmt.Printf("  %s  %-22s %s\n", word, line.meaning, s.Detail)
		}
	}
	var result string
	err := l.VMHost.Do(func() (err error) {
		result, err = lab.Digest(net.JoinHostPort("127.0.0.1", hostPort), 16<<20)
		return err
	})
	if err != nil {
		return fmt.Errorf("the forwarded port: %w", err)
	}
	fmt.Printf("  ok    %-22s host's port %s is the VM's port %s: %s\n", "forwarded port", hostPort, guestPort, result)
	if failed > 0 {
		return fmt.Errorf("%d steps failed", failed)
	}
	return nil
}
