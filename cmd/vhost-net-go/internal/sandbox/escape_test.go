package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// insideEnv makes the test binary enter the sandbox and try things.
const insideEnv = "VHOST_NET_GO_TEST_SANDBOX"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockedEnv); dir != "" {
		enterWithLocked(dir)
		os.Exit(0)
	}
	if dir := os.Getenv(insideEnv); dir != "" {
		inside(dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// attempt is something that a hijacked daemon would like to do, or that the
// daemon has to be able to do.
type attempt struct {
	name string
	do   func(dir string) error
}

func raw(call uintptr, args ...uintptr) func(string) error {
	return func(string) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := syscall.Syscall6(call, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func socket(family, kind, proto int) func(string) error {
	return func(string) error {
		fd, err := unix.Socket(family, kind, proto)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// mustFail lists what is refused.
func mustFail() []attempt {
	return []attempt{
		{"read a file", func(string) error { _, err := os.ReadFile("/etc/passwd"); return err }},
		{"read a file beside an allowed one", func(dir string) error { _, err := os.ReadFile(filepath.Join(dir, "secret")); return err }},
		{"list a folder", func(string) error { _, err := os.ReadDir("/"); return err }},
		{"make a file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o600) }},
		{"make a file where one may be removed", func(dir string) error { return os.WriteFile(filepath.Join(dir, "run", "new"), nil, 0o600) }},
		{"write to a file", func(dir string) error { return os.Truncate(filepath.Join(dir, "secret"), 0) }},
		{"remove a file elsewhere", func(dir string) error { return os.Remove(filepath.Join(dir, "secret")) }},
		{"remove a folder", func(dir string) error { return os.Remove(filepath.Join(dir, "run", "folder")) }},
		{"rename", func(dir string) error {
			return os.Rename(filepath.Join(dir, "run", "s"), filepath.Join(dir, "run", "t"))
		}},
		{"link", func(dir string) error { return os.Link(filepath.Join(dir, "run", "s"), filepath.Join(dir, "run", "t")) }},
		{"make a folder", func(dir string) error { return os.Mkdir(filepath.Join(dir, "run", "d"), 0o700) }},
		{"change the mode", func(dir string) error { return os.Chmod(filepath.Join(dir, "secret"), 0o777) }},
		{"change the root", func(dir string) error { return unix.Chroot(dir) }},
		{"run a program", func(string) error { return exec.Command("/bin/true").Run() }},
		{"execve", func(string) error { return unix.Exec("/bin/true", []string{"true"}, nil) }},
		{"fork", raw(unix.SYS_CLONE, uintptr(unix.SIGCHLD))},
		{"clone3", raw(unix.SYS_CLONE3, 0, 0)},
		{"make a namespace", func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"mount", func(string) error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") }},
		{"trace the parent", func(string) error { return unix.PtraceAttach(os.Getppid()) }},
		{"read the parent's memory", raw(unix.SYS_PROCESS_VM_READV, uintptr(os.Getppid()), 0, 0, 0, 0, 0)},
		{"signal the parent", func(string) error { return unix.Kill(os.Getppid(), 0) }},
		{"signal a thread of the parent", raw(unix.SYS_TGKILL, uintptr(os.Getppid()), uintptr(os.Getppid()), 0)},
		{"take the parent's descriptors", raw(unix.SYS_PIDFD_OPEN, uintptr(os.Getppid()), 0)},
		{"make a UNIX socket", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)},
		{"make a packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{"make a raw socket", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"make a VM socket", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"make an audit socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
		{"make an SCTP socket", socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)},
		{"become root", raw(unix.SYS_SETRESUID, 0, 0, 0)},
		{"gain a capability", func(string) error {
			h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			d := [2]unix.CapUserData{{Effective: 1 << unix.CAP_NET_ADMIN, Permitted: 1 << unix.CAP_NET_ADMIN}}
			return unix.Capset(&h, &d[0])
		}},
		{"get executable memory", func(string) error {
			_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
			return err
		}},
		{"make memory executable", func(string) error {
			b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err != nil {
				return nil // so that the test fails
			}
			return unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC)
		}},
		{"load a BPF program", raw(unix.SYS_BPF, 0, 0, 0)},
		{"use io_uring", raw(unix.SYS_IO_URING_SETUP, 1, 0)},
		{"use keys", raw(unix.SYS_KEYCTL, 0, 0)},
		{"use userfaultfd", raw(unix.SYS_USERFAULTFD, 0)},
		{"use perf", raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0)},
		{"reboot", raw(unix.SYS_REBOOT, 0, 0, 0)},
		{"become dumpable", func(string) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }},
		{"raise a limit", func(string) error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
		}},
	}
}

// mustWork lists what the daemon needs.
func mustWork() []attempt {
	return []attempt{
		{"make the sockets of flows", func(dir string) error {
			return errors.Join(
				socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)(dir),
				socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)(dir),
				socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)(dir),
				socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)(dir),
				socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)(dir),
			)
		}},
		{"make a ping socket", func(dir string) error {
			err := socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP)(dir)
			if errors.Is(err, unix.EACCES) { // the host's ping_group_range
				return nil
			}
			return err
		}},
		{"listen and connect", func(string) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return err
			}
			return c.Close()
		}},
		{"map memory that another process gave", func(string) error {
			fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
			if err != nil {
				return err
			}
			if err := unix.Ftruncate(fd, 1<<20); err != nil {
				return err
			}
			b, err := unix.Mmap(fd, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return err
			}
			return errors.Join(unix.Munmap(b), unix.Close(fd))
		}},
		{"read what is allowed", func(dir string) error { _, err := os.ReadFile(filepath.Join(dir, "resolv.conf")); return err }},
		{"read in an allowed folder", func(dir string) error {
			_, err := os.ReadFile(filepath.Join(dir, "resolved", "resolv.conf"))
			return err
		}},
		{"send to a log that was started anew", sendToLog},
		{"remove its socket", func(dir string) error { return os.Remove(filepath.Join(dir, "run", "s")) }},
		{"start threads, sleep, collect garbage", func(string) error {
			done := make(chan struct{})
			for range 20 {
				go func() {
					runtime.LockOSThread()
					time.Sleep(2 * time.Millisecond)
					done <- struct{}{}
				}()
			}
			for range 20 {
				<-done
			}
			runtime.GC()
			return nil
		}},
	}
}

// logSocket is the one of the process in the sandbox.
var logSocket int

// sendToLog sends until the system's log has been started anew and got it.
func sendToLog(dir string) (err error) {
	for range 500 {
		err = unix.Sendto(logSocket, []byte("message"), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: filepath.Join(dir, "log", "link")})
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// restartLog plays a system's log that listens once the sandbox is there, for as
// long as the test runs.
func restartLog(path string) {
	time.Sleep(50 * time.Millisecond)
	if l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path}); err == nil {
		_, _ = l.Read(make([]byte, 100))
		l.Close()
	}
}

// inside is the process in the sandbox: it prints what came of each attempt.
func inside(dir string) {
	runtime.GC() // threads that exist before the sandbox are in it too
	var err error
	if logSocket, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		panic(err)
	}
	missing, err := Enter(Config{
		Log:  filepath.Join(dir, "log", "link"),
		Mode: Require, RemoveIn: []string{filepath.Join(dir, "run")},
		Read: []string{filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "resolved"), filepath.Join(dir, "not there")},
	})
	if err != nil || len(missing) > 0 {
		fmt.Printf("enter\t%v\t%v\n", missing, err)
		return
	}
	for _, a := range append(mustFail(), mustWork()...) {
		fmt.Printf("%s\t%v\n", a.name, a.do(dir))
	}
}

// TestEscape runs all attempts in a process of its own.
func TestEscape(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"run/folder", "resolved", "log", "logger"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"secret", "resolv.conf", "resolved/resolv.conf", "run/s"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "logger", "socket"), filepath.Join(dir, "log", "link")); err != nil {
		t.Fatal(err)
	}
	go restartLog(filepath.Join(dir, "logger", "socket"))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), insideEnv+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.String())
	}
	results := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, result, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		results[name] = result
	}
	if result, ok := results["enter"]; ok {
		t.Skipf("SKIP: this kernel lacks a layer: %s", result)
	}
	for _, a := range mustFail() {
		if result, ok := results[a.name]; !ok || result == "<nil>" {
			t.Errorf("%s: %q (tried: %v), want a refusal", a.name, result, ok)
		}
	}
	for _, a := range mustWork() {
		if result := results[a.name]; result != "<nil>" {
			t.Errorf("%s: %q, want it to work", a.name, result)
		}
	}
}
