// Package qemutests boots real guests (QEMU, User Mode Linux, libvirt, DPDK) on the backend and checks what they see.
package qemutests

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// machine is prepared once, by TestMain.
var machine *harness.Harness

func TestMain(m *testing.M) {
	logf := func(format string, args ...any) { fmt.Printf("# "+format+"\n", args...) }
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	h, err := harness.Enter(ctx, logf)
	cancel()
	if err != nil {
		fmt.Println("prepare the guest tests:", err)
		os.Exit(1)
	}
	machine = h
	code := m.Run()
	printSummary()
	if err := h.Close(); err != nil {
		fmt.Println("clean up:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// newLab gives the test two hosts of its own, and a context that ends in time to clean up.
func newLab(t *testing.T, timeout time.Duration) (context.Context, *lab.Lab) {
	t.Helper()
	need(t, machine.Unable)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	l, err := machine.NewLab(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	record(t)
	return ctx, l
}

// need skips the test for want of something, or fails it where nothing may be skipped.
func need(t *testing.T, unable error) {
	t.Helper()
	if unable == nil {
		return
	}
	if os.Getenv("CI") == "true" || os.Getenv("VHOST_NET_GO_NO_SKIP") == "1" {
		t.Fatalf("nothing may be skipped here: %v", unable)
	}
	noteSkip(t, unable)
	t.Skip(unable)
}
