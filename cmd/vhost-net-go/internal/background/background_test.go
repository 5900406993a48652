package background

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVar makes this test binary play the daemon.
const roleVar = "VHOST_NET_GO_TEST_ROLE"

// TestMain plays a daemon whose role says what happens to it.
func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	keep := map[string]int{"keep": 9, "nofd": 900}[role]
	child := Started()
	if child == nil {
		ctx := context.Background()
		if role == "stopped" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
		}
		status, err := Run(ctx, keep)
		if err != nil {
			fmt.Fprintln(os.Stderr, "parent:", err)
		}
		os.Exit(status)
	}
	os.Exit(stay(child, role))
}

// stay is the life of the child.
func stay(child *Child, role string) int {
	switch role {
	case "fails":
		fmt.Fprintln(os.Stderr, "it does not work")
		return 7
	case "stopped":
		signal.Ignore(unix.SIGTERM)
		time.Sleep(500 * time.Millisecond)
	case "dies":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
	out := os.NewFile(9, "report")
	if role != "keep" {
		out = nil
	}
	if err := child.Prepare(); err != nil {
		panic(err)
	}
	if err := child.Ready(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("nobody shall see this")
	if out != nil {
		dir, _ := os.Getwd()
		sid, _ := unix.Getsid(0)
		_, marked := os.LookupEnv(env)
		fmt.Fprintf(out, "dir=%s leader=%v marked=%v", dir, sid == os.Getpid(), marked)
	}
	return 0
}

// call starts the daemon in a role; report, if not nil, becomes descriptor 9.
func call(t *testing.T, role string, report *os.File) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	if report != nil {
		cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, report}
	}
	out, err := cmd.CombinedOutput() // also waits until nobody has its output any more
	return string(out), err
}

func TestReady(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := call(t, "keep", w)
	w.Close()
	if out != "" || err != nil {
		t.Errorf("%q, error %v", out, err)
	}
	_ = r.SetReadDeadline(time.Now().Add(10 * time.Second))
	said, err := io.ReadAll(r)
	if want := "dir=/ leader=true marked=false"; string(said) != want || err != nil {
		t.Errorf("the child says %q, error %v; want %q", said, err, want)
	}
}

func TestFails(t *testing.T) {
	out, err := call(t, "fails", nil)
	exit := new(exec.ExitError)
	if out != "it does not work\n" || !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%q, error %v", out, err)
	}
	out, err = call(t, "dies", nil)
	if err == nil || !strings.Contains(out, "parent: the process in the background ended: signal: killed") {
		t.Errorf("%q, error %v", out, err)
	}
}

// TestStopped: whoever was told to stop before the child was ready does not say
// that it is.
func TestStopped(t *testing.T) {
	out, err := call(t, "stopped", nil)
	exit := new(exec.ExitError)
	if !strings.Contains(out, "start in the background: context deadline exceeded") || !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%q, error %v", out, err)
	}
}

// TestKept: descriptors keep their numbers, in whatever order they are named.
func TestKept(t *testing.T) {
	const standard = 3
	for _, order := range [][]int{{0, 1}, {1, 0}, {1, 0, 1}} {
		var open, fds []int
		for range 2 {
			fd, err := unix.Dup(0)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, fd)
		}
		for _, i := range order {
			fds = append(fds, open[i])
		}
		files := kept(append(fds, -1, 0, 9999)) // which own the descriptors now
		if len(files) != max(open[0], open[1])+1 {
			t.Fatalf("%v: %v", fds, files)
		}
		for fd, f := range files[standard:] {
			if fd += standard; slices.Contains(open, fd) != (f != nil) || f != nil && int(f.Fd()) != fd {
				t.Errorf("%v: descriptor %d is %v", fds, fd, f)
			}
		}
	}
}

// TestNoSuchDescriptor leaves it to the child to miss it.
func TestNoSuchDescriptor(t *testing.T) {
	if out, err := call(t, "nofd", nil); err != nil || out != "" {
		t.Errorf("%q, error %v", out, err)
	}
}

func TestNotStarted(t *testing.T) {
	for _, mark := range []string{"", "x", "1"} {
		t.Setenv(env, mark)
		if Started() != nil {
			t.Errorf("started by mark %q", mark)
		}
	}
}
