package qemutests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// bigCounters is what the backend counts of frames above 64 KiB.
type bigCounters struct{ sent, refused, timeouts int }

// TestBigTCP: guests that take frames above 64 KiB get them, and guests that do not lose no byte and no time by being asked. The
// backend outlives the guests of a case, which follow each other, and must not take one for the other.
func TestBigTCP(t *testing.T) {
	for _, c := range []struct {
		name   string
		guests []bootFunc
		args   []string
		// refused is how often the guests say no, big whether they take such frames.
		refused int
		big     bool
	}{
		{"uml72", []bootFunc{bootUML}, []string{"--gso-max-size", "524288"}, 0, true},
		{"off", []bootFunc{bootUML}, []string{"--no-big-tcp"}, 0, false},
		// 6.1 refuses a length of 0 in both families, and takes the option of IPv6.
		{"uml61-uml72-uml61", []bootFunc{bootUML61, bootUML, bootUML61}, nil, 4, true},
		{"qemu", []bootFunc{bootQEMU("")}, nil, 0, true},
		{"qemu-not-mergeable", []bootFunc{bootQEMU(",mrg_rxbuf=off")}, nil, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, l := newLab(t, 2*time.Minute)
			config := guest.Config{
				Socket: filepath.Join(l.Dir, "s"),
				Script: fmt.Sprintf(bigScript, peer.URL(lab.Peer4, bigBlob), peer.URL(lab.Peer6, bigBlob)),
			}
			backend, err := l.StartBackend(ctx, machine.Backend, "backend", lab.Link{Path: config.Socket}, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			defer backend.Kill()
			defer logOnFailure(t, l, "backend")
			for i, boot := range c.guests {
				config.Name = fmt.Sprintf("u%d", i)
				vm := boot(ctx, t, l, config)
				err := vm.Console.Finish(ctx)
				vm.Stop()
				if err != nil {
					t.Error(err)
				}
				checkSteps(t, vm, []string{"lease", "slaac", "features", "download4", "download6"})
				if c.name != "qemu-not-mergeable" {
					checkOffloads(ctx, t, vm)
				}
			}
			got := readBigCounters(ctx, t, l, backend)
			note(t, "%+v", got)
			if (got.sent > got.refused) != c.big || got.refused != c.refused || got.timeouts != 0 {
				t.Errorf("%+v, want big frames %v, refused %d, no timeout", got, c.big, c.refused)
			}
		})
	}
}

const (
	bigBlob   = "blob?bytes=33554432"
	bigScript = `
step lease lease
step slaac slaac
step features cat /sys/class/net/eth0/device/features
step download4 guest-agent download '%s'
step download6 guest-agent download '%s'
`
)

// checkOffloads demands that driver and backend agreed on everything that TCP gains from, in both directions.
func checkOffloads(ctx context.Context, t *testing.T, vm *guest.VM) {
	t.Helper()
	s, err := vm.Console.Step(ctx, "features", 1)
	if err != nil {
		t.Fatal(err)
	}
	// Bits as virtio numbers them, the lowest first (virtio 1.3, 5.1.3).
	for bit, name := range map[int]string{
		0: "CSUM", 1: "GUEST_CSUM", 7: "GUEST_TSO4", 8: "GUEST_TSO6", 9: "GUEST_ECN", 11: "HOST_TSO4", 12: "HOST_TSO6", 13: "HOST_ECN", 15: "MRG_RXBUF",
	} {
		if len(s.Detail) <= bit || s.Detail[bit] != '1' {
			t.Errorf("%s is not negotiated: %s", name, s.Detail)
		}
	}
}

type bootFunc = func(context.Context, *testing.T, *lab.Lab, guest.Config) *guest.VM

func bootUML(ctx context.Context, t *testing.T, l *lab.Lab, c guest.Config) *guest.VM {
	t.Helper()
	config, _ := guest.UMLs(l)
	return startUML(ctx, t, l, config, c)
}

func bootUML61(ctx context.Context, t *testing.T, l *lab.Lab, c guest.Config) *guest.VM {
	t.Helper()
	_, config := guest.UMLs(l)
	return startUML(ctx, t, l, config, c)
}

func startUML(ctx context.Context, t *testing.T, l *lab.Lab, config guest.UMLConfig, c guest.Config) *guest.VM {
	t.Helper()
	config.Config = c
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// bootQEMU sets properties of the network card, each with its comma in front.
func bootQEMU(properties string) bootFunc {
	return func(ctx context.Context, t *testing.T, l *lab.Lab, c guest.Config) *guest.VM {
		t.Helper()
		return startQEMU(ctx, t, l, guest.QEMUConfig{Config: c, Kernel: machine.Kernel, Device: properties})
	}
}

var bigCountersLine = regexp.MustCompile(`Timeouts:(\d+) .*BigToGuest:(\d+) BigRefused:(\d+)`)

// readBigCounters makes the backend log its counters.
func readBigCounters(ctx context.Context, t *testing.T, l *lab.Lab, backend *sandbox.Process) bigCounters {
	t.Helper()
	if err := backend.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var m [][]byte
	err := lab.WaitFor(ctx, 5*time.Second, "the backend's counters", func() bool {
		text, err := os.ReadFile(filepath.Join(l.Dir, "backend.log"))
		m = bigCountersLine.FindSubmatch(text)
		return err == nil && m != nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(m[i+1]))
	}
	return bigCounters{timeouts: n[0], sent: n[1], refused: n[2]}
}
