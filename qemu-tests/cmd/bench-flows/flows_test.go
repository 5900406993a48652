package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

func TestMain(m *testing.M) {
	stage.Main()
	os.Exit(m.Run())
}

// A small run on the project's backend finds nothing to complain about.
func TestFewFlows(t *testing.T) {
	if ns, err := sandbox.NewNetNS(); err != nil {
		t.Skipf("network namespaces: %v", err)
	} else {
		ns.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	daemon := filepath.Join(t.TempDir(), "vhost-net-go")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", daemon, "./cmd/vhost-net-go")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the backend: %v\n%s", err, out)
	}
	o := options{ours: daemon, flows: 500, pending: 50, exchange: 1024, limit: 30 * time.Second}
	if err := run(ctx, o); err != nil {
		t.Error(err)
	}
	o.ours, o.flows = "/nonexistent", 1
	if err := run(ctx, o); err == nil {
		t.Error("a backend that is not there was measured")
	}
}
