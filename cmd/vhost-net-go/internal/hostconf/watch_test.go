package hostconf

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// changes runs Watch and waits for what a test expects of it.
type changes struct {
	*testing.T
	states chan State
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
	ctx, stop := context.WithCancel(t.Context())
	c := &changes{T: t, states: make(chan State, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		time.Sleep(50 * time.Millisecond)
		steps(c)
	}()
	if err := Watch(ctx, src, first, func(st State) { c.states <- st }); err != nil {
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
		if err := Watch(ctx, Source{ResolvConf: "/nonexistent/x"}, State{}, func(State) {}); err != nil {
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
