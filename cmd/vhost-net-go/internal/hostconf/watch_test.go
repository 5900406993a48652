package hostconf

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// changes runs Watch and waits for what a test expects of it.
type changes struct {
	*testing.T
	states chan State
	unread chan error
}

// next returns the first state for which is says yes.
func (c *changes) next(what string, is func(State) bool) {
	c.Helper()
	for end := time.After(5 * time.Second); ; {
		select {
		case st := <-c.states:
			if is(st) {
				return
			}
		case <-end:
			c.Fatalf("%s: nothing of it was seen", what)
		}
	}
}

func (c *changes) none(what string) {
	c.Helper()
	select {
	case st := <-c.states:
		c.Errorf("%s: a change was reported: %+v", what, st)
	case <-time.After(2 * settleQuiet):
	}
}

// watching starts Watch on the calling thread's namespace and runs steps beside
// it.
func watching(t *testing.T, src Source, steps func(c *changes)) {
	t.Helper()
	first, err := Read(src)
	if err != nil {
		t.Fatal(err)
	}
	watchingFrom(t, src, first, steps)
}

func watchingFrom(t *testing.T, src Source, first State, steps func(c *changes)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &changes{T: t, states: make(chan State, 16), unread: make(chan error, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		time.Sleep(50 * time.Millisecond)
		steps(c)
	}()
	if err := Watch(ctx, src, first, func(st State) { c.states <- st }, func(err error) { c.unread <- err }); err != nil {
		t.Error(err)
	}
	<-done
}

func hasResolver(a string) func(State) bool {
	return func(st State) bool { return len(st.Resolvers) == 1 && st.Resolvers[0] == netip.MustParseAddr(a) }
}

// TestWatchResolverFile changes the file in all the ways in which it is done.
func TestWatchResolverFile(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	path, target := filepath.Join(dir, "resolv.conf"), filepath.Join(other, "stub.conf")
	write := func(path, a string) {
		if err := os.WriteFile(path, []byte("nameserver "+a+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	write(path, "192.0.2.1")
	watching(t, Source{ResolvConf: path}, func(c *changes) {
		c.none("at first")
		write(path, "192.0.2.2")
		c.next("rewritten", hasResolver("192.0.2.2"))
		write(filepath.Join(dir, "new"), "192.0.2.3")
		must(os.Rename(filepath.Join(dir, "new"), path))
		c.next("replaced", hasResolver("192.0.2.3"))
		write(target, "192.0.2.4")
		must(os.Symlink(target, filepath.Join(dir, "link")))
		must(os.Rename(filepath.Join(dir, "link"), path))
		c.next("replaced by a link", hasResolver("192.0.2.4"))
		write(target, "192.0.2.5")
		c.next("rewritten behind the link", hasResolver("192.0.2.5"))
		write(filepath.Join(dir, "passwd"), "192.0.2.6")
		write(target, "192.0.2.5")
		c.none("another file, and the same content")
		must(os.RemoveAll(other))
		c.next("folder removed", hasResolver("127.0.0.1"))
		must(os.Mkdir(other, 0o700))
		write(path+"x", "192.0.2.6") // lets the folder be found
		must(os.Remove(path))
		must(os.Symlink(target, path))
		time.Sleep(2 * settleQuiet)
		write(target, "192.0.2.8")
		c.next("folder back", hasResolver("192.0.2.8"))
		must(os.Remove(path))
		c.next("removed", hasResolver("127.0.0.1"))
		write(path, "192.0.2.7")
		c.next("back", hasResolver("192.0.2.7"))
	})
}

// TestWatchUnreadable: a resolver file that cannot be read changes nothing, and is
// told once; one that is not there is a host without resolvers.
func TestWatchUnreadable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(a string) {
		if err := os.WriteFile(path, []byte("nameserver "+a+"\nsearch x.example\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	var locked atomic.Bool
	src := Source{ResolvConf: path, ReadResolvConf: func() ([]byte, error) {
		if locked.Load() {
			return nil, os.ErrPermission
		}
		return os.ReadFile(path)
	}}
	write("192.0.2.1")
	watching(t, src, func(c *changes) {
		locked.Store(true)
		for _, a := range []string{"192.0.2.2", "192.0.2.3"} {
			write(a)
			c.none("unreadable")
		}
		if n := len(c.unread); n != 1 {
			c.Errorf("told %d times", n)
		}
		locked.Store(false)
		if err := os.Chmod(path, 0o644); err != nil {
			c.Error(err)
		}
		c.next("readable", hasResolver("192.0.2.3"))
		locked.Store(true)
		write("192.0.2.4")
		c.none("unreadable again")
		if n := len(c.unread); n != 2 {
			c.Errorf("told %d times", n)
		}
		locked.Store(false)
		if err := os.Remove(path); err != nil {
			c.Error(err)
		}
		c.next("removed", hasResolver("127.0.0.1"))
	})
}

// TestWatchInSandbox: what a sandbox hides, and what only the log is told in the
// beginning, are no changes.
func TestWatchInSandbox(t *testing.T) {
	t.Parallel()
	src := Source{ResolvConf: "/nonexistent/x"}
	first, err := Read(src)
	if err != nil {
		t.Fatal(err)
	}
	first.LocalPorts = [2]uint16{40000, 40001} // read before the sandbox
	first.Warning = "something"
	watchingFrom(t, src, first, func(c *changes) { c.none("at first") })
}

func TestWatchNetwork(t *testing.T) {
	src := source(t, "", "nameserver 192.0.2.1\n")
	inNetns(t, func() {
		ns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			t.Error(err)
			return
		}
		defer ns.Close()
		ip := func(line string) {
			// Not this thread: Watch has it.
			args := append([]string{"--net=/proc/self/fd/3", "ip"}, strings.Fields(line)...)
			cmd := exec.Command("nsenter", args...)
			cmd.ExtraFiles = []*os.File{ns}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("ip %s: %v: %s", line, err, out)
			}
		}
		watching(t, src, func(c *changes) {
			ip("addr add 10.1.1.5/24 dev up0")
			c.next("address", func(st State) bool { return st.V4.Addr.IsValid() })
			ip("route add default via 10.1.1.1")
			c.next("default route", func(st State) bool { return st.V4.DefaultRoute })
			ip("addr del 10.1.1.5/24 dev up0")
			c.next("address gone", func(st State) bool { return !st.V4.Addr.IsValid() && !st.V4.DefaultRoute })
			ip("addr add 2001:db8::5/64 dev up0 nodad")
			c.next("IPv6 address", func(st State) bool { return st.V6.Addr.IsValid() })
		})
	}, veth0...)
}

// TestWatchEnds: nothing stays behind.
func TestWatchEnds(t *testing.T) {
	before := len(openFiles(t))
	for range 5 {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := Watch(ctx, Source{ResolvConf: "/nonexistent/x"}, State{}, func(State) {}, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(2 * time.Second); len(openFiles(t)) > before; {
		if time.Now().After(end) {
			t.Fatalf("%d open files, %d before", len(openFiles(t)), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func openFiles(t *testing.T) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func FuzzAnyNamed(f *testing.F) {
	f.Add(append(make([]byte, 12), 16, 0, 0, 0, 'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "r")
	f.Fuzz(func(_ *testing.T, b []byte, name string) { anyNamed(b, []string{name}) })
}
