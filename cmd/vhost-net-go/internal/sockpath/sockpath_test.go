package sockpath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func path(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("vhost-net-go_%d.socket", n))
}

func TestFirst(t *testing.T) {
	dir := t.TempDir()
	want := func(n int) {
		t.Helper()
		if got, err := First(dir); err != nil || got != path(dir, n) {
			t.Fatalf("First = %q, %v; want number %d", got, err, n)
		}
	}
	want(1)
	live, err := net.Listen("unix", path(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	want(2)
	if err := os.WriteFile(path(dir, 2), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(3) // a plain file is somebody's
	live.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	want(1) // a socket nobody listens on is stale
}

func TestFirstGivesUp(t *testing.T) {
	dir := t.TempDir()
	for n := 1; n <= maxProbes; n++ {
		if err := os.WriteFile(path(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := First(dir); !errors.Is(err, ErrNone) {
		t.Fatalf("First = %q, %v", got, err)
	}
	if _, err := First("/proc/nonexistent"); err != nil {
		t.Errorf("a missing folder is for the listener to complain about: %v", err)
	}
}

func TestDir(t *testing.T) {
	dir := t.TempDir()
	for env, want := range map[string]string{dir: dir, "": os.TempDir(), "relative": os.TempDir(), dir + "/none": os.TempDir()} {
		t.Setenv("XDG_RUNTIME_DIR", env)
		if got := Dir(); got != want {
			t.Errorf("XDG_RUNTIME_DIR=%q: Dir = %q, want %q", env, got, want)
		}
	}
}
