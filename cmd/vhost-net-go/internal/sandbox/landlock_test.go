package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// lockedEnv makes the test binary enter the sandbox with paths behind a folder that
// its user cannot search.
const lockedEnv = "VHOST_NET_GO_TEST_LOCKED"

// someUser is not root, for whom no folder is locked.
const someUser = 65534

func lockedConfig(dir string) Config {
	deep := filepath.Join(dir, "locked", "deep")
	return Config{
		Mode: Require, RemoveIn: []string{deep}, Read: []string{filepath.Join(deep, "file"), filepath.Join(dir, "open")},
		Dial: filepath.Join(deep, "socket"), Log: filepath.Join(deep, "log"),
	}
}

// enterWithLocked prints what is skipped and what can be read afterwards.
func enterWithLocked(dir string) {
	runtime.LockOSThread()
	if os.Geteuid() == 0 {
		if err := unix.Setfsuid(someUser); err != nil { // of this thread, whose permissions count
			fmt.Println(err)
			return
		}
	}
	cfg := lockedConfig(dir)
	skipped := 0
	cfg.Skipped = func(err error) {
		if errors.Is(err, fs.ErrPermission) {
			skipped++
		}
	}
	missing, err := Enter(cfg)
	_, allowed := os.ReadFile(filepath.Join(dir, "open"))
	_, forbidden := os.ReadFile(filepath.Join(dir, "other"))
	fmt.Print(missing, err, skipped, allowed, forbidden != nil)
}

// TestLockedFolder: paths that the user does not get to, as after a change of the
// user, cost their rules and not the sandbox.
func TestLockedFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for someUser
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "locked", "deep")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "open"), filepath.Join(dir, "other"), filepath.Join(deep, "file")} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "locked"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "locked"), 0o755) })
	if abi, err := ll.LandlockGetABIVersion(); err != nil || abi < 1 {
		t.Skip("SKIP: this kernel has no Landlock")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockedEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if want := "[] <nil> 4 <nil> true"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

// TestPermits looks at the rules, of which this kernel may not know all.
func TestPermits(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		cfg     Config
		want    []permit
		skipped int
	}{
		{"nothing", Config{}, nil, 0},
		{"to read", Config{Read: []string{file, folder}}, []permit{{file, ll.AccessFSReadFile}, {folder, ll.AccessFSReadFile | ll.AccessFSReadDir}}, 0},
		{"missing", Config{Read: []string{filepath.Join(dir, "x")}, RemoveIn: []string{filepath.Join(dir, "y"), dir}}, []permit{{dir, ll.AccessFSRemoveFile}}, 2},
		{"to dial", Config{Dial: filepath.Join(folder, "socket")}, []permit{{folder, ll.AccessFSResolveUnix}}, 0},
		{"to dial where there is no folder yet", Config{Dial: filepath.Join(folder, "a", "b", "socket")}, []permit{{folder, ll.AccessFSResolveUnix}}, 0},
		{"to dial in the root", Config{Dial: "/socket"}, []permit{{"/", ll.AccessFSResolveUnix}}, 0},
	} {
		permits, skipped := permitsOf(c.cfg)
		if d := cmp.Diff(c.want, permits, cmp.AllowUnexported(permit{})); d != "" || len(skipped) != c.skipped {
			t.Errorf("%s: skipped %v (-want +got):\n%s", c.name, skipped, d)
		}
	}
}
