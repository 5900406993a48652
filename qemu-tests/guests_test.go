package qemutests

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

const transferBytes = 256 << 20

func TestSuiteQEMU(t *testing.T) {
	for _, setUp := range []struct {
		name  string
		start func(context.Context, *testing.T, *lab.Lab, guest.QEMUConfig) *guest.VM
	}{
		{"frontend-connects", startConnecting}, {"frontend-listens", startListening}, {"inherited-fd", startInherited},
	} {
		t.Run(setUp.name, func(t *testing.T) {
			ctx, l := newLab(t, 8*time.Minute)
			vm := setUp.start(ctx, t, l, guest.QEMUConfig{
				Config: guest.Config{Name: "q", Script: suiteScript(transferBytes), Socket: filepath.Join(l.Dir, "s")},
				Kernel: machine.Kernel,
			})
			checkSuite(ctx, t, l, vm)
		})
	}
}

// startConnecting: the backend listens, QEMU connects.
func startConnecting(ctx context.Context, t *testing.T, l *lab.Lab, c guest.QEMUConfig) *guest.VM {
	t.Helper()
	startBackend(ctx, t, l, lab.Link{Path: c.Socket})
	return startQEMU(ctx, t, l, c)
}

// startListening: QEMU listens, the backend connects.
func startListening(ctx context.Context, t *testing.T, l *lab.Lab, c guest.QEMUConfig) *guest.VM {
	t.Helper()
	if !machine.Backend.Client {
		need(t, fmt.Errorf("%s cannot connect to a frontend", machine.Backend.Name))
	}
	c.Listen = true
	vm := startQEMU(ctx, t, l, c)
	startBackend(ctx, t, l, lab.Link{Path: c.Socket, Client: true})
	return vm
}

// startInherited: somebody else, here the test, listens, and the backend inherits the connection that QEMU made. (QEMU itself
// does not take an inherited socket for vhost-user.)
func startInherited(ctx context.Context, t *testing.T, l *lab.Lab, c guest.QEMUConfig) *guest.VM {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	vm := startQEMU(ctx, t, l, c)
	_ = listener.SetDeadline(time.Now().Add(10 * time.Second))
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatalf("QEMU did not connect: %v; %s", err, vm.Console.Tail(5))
	}
	defer conn.Close()
	file, err := conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	startBackend(ctx, t, l, lab.Link{File: file})
	return vm
}

// startBackend starts the backend under test, with more arguments, until the test ends. The guest's server is reached through
// suitePort.
func startBackend(ctx context.Context, t *testing.T, l *lab.Lab, link lab.Link, args ...string) *sandbox.Process {
	t.Helper()
	p, err := l.StartBackend(ctx, machine.Backend, "backend", link, append([]string{"-t", suitePort}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		logOnFailure(t, l, "backend")
	})
	return p
}

func startQEMU(ctx context.Context, t *testing.T, l *lab.Lab, c guest.QEMUConfig) *guest.VM {
	t.Helper()
	vm, err := guest.StartQEMU(ctx, l, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vm.Stop)
	return vm
}

func TestSuiteUML(t *testing.T) {
	ctx, l := newLab(t, 4*time.Minute)
	config, _ := guest.UMLs(l)
	runUML(ctx, t, l, config, transferBytes)
}

// TestSmokeUML61 is the suite with less data, in Debian 12's kernel, which insists on the backend's request channel.
func TestSmokeUML61(t *testing.T) {
	ctx, l := newLab(t, 2*time.Minute)
	_, config := guest.UMLs(l)
	runUML(ctx, t, l, config, 16<<20)
}

func runUML(ctx context.Context, t *testing.T, l *lab.Lab, config guest.UMLConfig, bytes int) {
	t.Helper()
	config.Config = guest.Config{Name: "u", Script: suiteScript(bytes), Socket: filepath.Join(l.Dir, "s")}
	startBackend(ctx, t, l, lab.Link{Path: config.Socket})
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	checkSuite(ctx, t, l, vm)
}

// checkServes boots a small guest on a backend that has been through something.
func checkServes(ctx context.Context, t *testing.T, l *lab.Lab, socket string) {
	t.Helper()
	config, _ := guest.UMLs(l)
	config.Config = guest.Config{
		Name: "after", Socket: socket,
		Script: fmt.Sprintf("step lease lease\nstep ping4 reply %s\nstep slaac slaac\nstep ping6 reply %s\n", lab.Peer4, lab.Peer6),
	}
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	if err := vm.Console.Finish(ctx); err != nil {
		t.Error(err)
	}
	checkSteps(t, vm, []string{"lease", "ping4", "slaac", "ping6"})
}

// logOnFailure shows the last of a program's messages.
func logOnFailure(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	text, err := os.ReadFile(filepath.Join(l.Dir, name+".log"))
	if err != nil {
		t.Log(err)
	}
	t.Logf("%s.log:\n%s", name, text[max(0, len(text)-4000):])
}
