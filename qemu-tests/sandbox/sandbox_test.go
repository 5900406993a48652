package sandbox

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unable is why this machine cannot make namespaces, or nil.
var unable error

func TestMain(m *testing.M) {
	Main()
	if os.Geteuid() != 0 {
		unable = EnterUserNS()
	} else if ns, err := NewNetNS(); err != nil {
		unable = err
	} else {
		ns.Close()
	}
	os.Exit(m.Run())
}

func need(t *testing.T) {
	t.Helper()
	if unable != nil && os.Getenv("CI") == "true" {
		t.Fatal(unable)
	} else if unable != nil {
		t.Skip(unable)
	}
}

// inView is a command in a view of a small root file system that has this machine's programs.
func inView(t *testing.T, args ...string) Command {
	t.Helper()
	need(t)
	root := t.TempDir()
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+d, filepath.Join(root, d)); err != nil {
			t.Fatal(err)
		}
	}
	return Command{Args: args, Root: root, Scratch: t.TempDir(), Share: []string{"/usr"}}
}

func TestNamespacesAreApart(t *testing.T) {
	need(t)
	a, err := NewNetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	before, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var inside []net.Interface
	if err := a.Do(func() (err error) { inside, err = net.Interfaces(); return err }); err != nil {
		t.Fatal(err)
	}
	if len(inside) != 1 || inside[0].Name != "lo" || inside[0].Flags&net.FlagUp != 0 {
		t.Errorf("a new namespace has %v", inside)
	}
	after, err := net.Interfaces()
	if err != nil || len(after) != len(before) {
		t.Errorf("interfaces outside before %v and after %v, %v", before, after, err)
	}
	if err := a.WriteSysctl("net/ipv4/ip_default_ttl", "33"); err != nil {
		t.Fatal(err)
	}
	if ttl, _ := os.ReadFile("/proc/thread-self/root/proc/sys/net/ipv4/ip_default_ttl"); strings.TrimSpace(string(ttl)) == "33" {
		t.Error("the setting leaked out of the namespace")
	}
}

func TestRunInAView(t *testing.T) {
	c := inView(t, "/bin/sh", "-c", "echo new >/fresh && cat /fresh && ls / && echo $$")
	out, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out, "new\n") {
		t.Errorf("output %q", out)
	}
	if _, err := os.Stat(filepath.Join(c.Root, "fresh")); err == nil {
		t.Error("the program wrote through its view")
	}
	left, err := os.ReadDir(c.Scratch)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the scratch folder: %v, %v", left, err)
	}
}

func TestShareFilesAndStatus(t *testing.T) {
	c := inView(t, "/bin/sh", "-c", "cat <&3 >\"$OUT\"; exit 7")
	shared := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, _ = io.WriteString(w, "through descriptor 3")
	w.Close()
	c.Share, c.Files, c.Env = append(c.Share, shared), []*os.File{r}, []string{"OUT=" + filepath.Join(shared, "out")}
	_, err = Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("status: %v", err)
	}
	got, err := os.ReadFile(filepath.Join(shared, "out"))
	if err != nil || string(got) != "through descriptor 3" {
		t.Errorf("shared file %q, %v", got, err)
	}
}

func TestKillEndsOrphansToo(t *testing.T) {
	c := inView(t, "/bin/sh", "-c", "(setsid sleep 1234 & ) ; sleep 1234")
	p, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := p.PID()
	if err != nil {
		t.Fatal(err)
	}
	orphan := waitForChildOf(t, p.cmd.Process.Pid, pid)
	p.Kill()
	for _, pid := range []int{pid, orphan} {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d lives", pid)
		}
	}
}

// waitForChildOf returns a child of the namespace's first process that is not its program: an orphan it was given.
func waitForChildOf(t *testing.T, first, program int) int {
	t.Helper()
	for range 200 {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", first))
		for _, l := range lists {
			text, _ := os.ReadFile(l)
			for _, f := range strings.Fields(string(text)) {
				var pid int
				if _, err := fmt.Sscan(f, &pid); err == nil && pid != program {
					return pid
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no orphan")
	return 0
}

func TestContextEndsTheProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := Run(ctx, Command{Args: []string{"sleep", "100"}}); err == nil {
		t.Error("no error")
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestSignal(t *testing.T) {
	p, err := Start(t.Context(), Command{Args: []string{"sleep", "100"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Error(err)
	}
}

func TestLimitedBuffer(t *testing.T) {
	var b limitedBuffer
	for range 3 * maxOutputBytes / 1000 {
		_, _ = b.Write(make([]byte, 1000))
	}
	_, _ = io.WriteString(&b, "the end")
	if n := len(b.String()); n > maxOutputBytes {
		t.Errorf("keeps %d bytes", n)
	}
	if got := b.Tail(7); got != "the end" {
		t.Errorf("tail %q", got)
	}
}

func TestIsTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(null) {
		t.Error("/dev/null is said to be a terminal")
	}
}
