package resolvfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if s := Started(); s != nil {
		s.Serve()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func startReader(t *testing.T, path string) *Reader {
	t.Helper()
	r, err := Start(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestRead puts another file in the place of the one of the start, in the ways in
// which it is done, and looks at one process's answers.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "resolv.conf")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(name string) {
		if err := os.Rename(filepath.Join(dir, name), path); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target string) {
		if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		replace("link")
	}
	r := startReader(t, path)
	for _, c := range []struct {
		name   string
		change func()
		want   string
		err    error
	}{
		{"missing", func() {}, "", fs.ErrNotExist},
		{"made", func() { write("resolv.conf", "first") }, "first", nil},
		{"rewritten", func() { write("resolv.conf", "second") }, "second", nil},
		{"replaced", func() { write("new", "third"); replace("new") }, "third", nil},
		{"empty", func() { write("resolv.conf", "") }, "", nil},
		{"a link", func() { write("target", "fourth"); link("target") }, "fourth", nil},
		{"another link", func() { write("other", "fifth"); link(filepath.Join(dir, "other")) }, "fifth", nil},
		{"a link to nothing", func() { link("nothing") }, "", fs.ErrNotExist},
		{"no text", func() { link("/dev/null") }, "", nil},
		{"large", func() { write("large", strings.Repeat("x", MaxBytes+7)); replace("large") }, strings.Repeat("x", MaxBytes), nil},
	} {
		c.change()
		got, err := r.Read()
		if string(got) != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %.20q, %v, want %.20q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// TestReadErrors: what is no file that can be read is an error other than that of a
// missing one, and the process lives on.
func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "loop")} {
		if path != dir {
			if err := os.Symlink("loop", path); err != nil {
				t.Fatal(err)
			}
		}
		r := startReader(t, path)
		for range 2 {
			if _, err := r.Read(); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestLateAnswer: an answer to a question that was given up is not the next one's.
func TestLateAnswer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	r := startReader(t, path)
	if _, err := r.socket.Write([]byte{r.number}); err != nil { // never waited for
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Read(); string(got) != "new" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestEnd: the second process ends with the first one's descriptor, and without it
// there is an error at once.
func TestEnd(t *testing.T) {
	r := startReader(t, filepath.Join(t.TempDir(), "f"))
	if _, err := r.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	pid := r.pid
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, pid)
	for range 2 {
		if _, err := r.Read(); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read with the reader gone: %v", err)
		}
	}
	r = startReader(t, "/nonexistent")
	pid = r.pid
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, pid)
}

// wait waits for the end of a child.
func wait(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); got == pid || err == unix.ECHILD {
			return
		}
	}
	t.Fatalf("process %d is still there", pid)
}
