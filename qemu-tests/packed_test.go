package qemutests

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// packedDevices are QEMU's packed rings, as options of its device.
var packedDevices = []struct{ name, options string }{
	{"indirect", ",packed=on"},
	{"in-order", ",packed=on,in_order=on"},
	{"direct", ",packed=on,indirect_desc=off"},
}

// TestPackedRestart is TestBackendRestart with packed rings, in short. Such a ring has no index, and QEMU tells none that is of
// use: after a crash it repeats what the last orderly stop had told it.
func TestPackedRestart(t *testing.T) {
	for _, d := range packedDevices {
		t.Run(d.name, func(t *testing.T) {
			ctx, l := newLab(t, 3*time.Minute)
			link := lab.Link{Path: filepath.Join(l.Dir, "s")}
			backend := startBackend(ctx, t, l, link)
			vm := startBusy(ctx, t, l, d.options)
			restart(ctx, t, l, link, backend, 4)
			if err := vm.Control("stop"); err != nil {
				t.Fatal(err)
			}
			if err := vm.Control("cont"); err != nil {
				t.Fatal(err)
			}
			if out, in, err := timeToTraffic(ctx, l); err != nil || out > backWithin || in > backWithin {
				t.Errorf("stop and cont: %v from the guest, %v into the guest, %v", out, in, err)
			}
			if t.Failed() {
				t.Logf("console:\n%s", vm.Console.Tail(20))
			}
		})
	}
}
