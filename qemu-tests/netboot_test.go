package qemutests

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// TestNetworkBoot: iPXE, in the card's ROM, gets an address and the name of a script by DHCP, loads Linux by HTTP through us and
// hands the device over to it.
func TestNetworkBoot(t *testing.T) {
	ctx, l := newLab(t, 3*time.Minute)
	if machine.Backend.InTree {
		t.Skip("the option for the boot file is this project's")
	}
	web, err := l.Peer.Listen("tcp", lab.Peer4+":8080")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	served := make(chan string, 100)
	files := http.FileServer(http.Dir(l.Dir))
	go func() {
		_ = http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served <- r.URL.Path
			files.ServeHTTP(w, r)
		}))
	}()
	url := "http://" + lab.Peer4 + ":8080/"
	script := fmt.Sprintf("#!ipxe\nkernel %svmlinuz %s initrd=i\ninitrd --name i %snb.initramfs\nboot\n", url, guest.KernelArgs, url)
	if err := os.WriteFile(filepath.Join(l.Dir, "boot.ipxe"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(l.Dir, "s")
	p, err := l.StartBackend(ctx, machine.Backend, "backend", lab.Link{Path: socket}, "--dhcp-boot", url+"boot.ipxe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		logOnFailure(t, l, "backend")
	})
	start := time.Now()
	vm := startQEMU(ctx, t, l, guest.QEMUConfig{
		Config: guest.Config{
			Name: "nb", Socket: socket,
			Script: fmt.Sprintf("step lease lease\nstep ping4 reply %s\nstep slaac slaac\nstep ping6 reply %s\n", lab.Peer4, lab.Peer6),
		},
		Kernel: machine.Kernel, NetBoot: true,
	})
	if err := vm.Console.Finish(ctx); err != nil {
		t.Errorf("%v; %d files were asked for", err, len(served))
	}
	note(t, "booted and done after %v", time.Since(start).Round(100*time.Millisecond))
	checkSteps(t, vm, []string{"lease", "ping4", "slaac", "ping6"})
	for _, want := range []string{"/boot.ipxe", "/vmlinuz", "/nb.initramfs"} {
		select {
		case got := <-served:
			if got != want {
				t.Errorf("%s was loaded, want %s", got, want)
			}
		default:
			t.Errorf("%s was not loaded", want)
		}
	}
}
