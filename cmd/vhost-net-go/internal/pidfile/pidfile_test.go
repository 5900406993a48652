package pidfile

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestWriteAndRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(path, []byte("a much longer stale file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Write(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := strconv.Itoa(os.Getpid()) + "\n"; err != nil || string(text) != want {
		t.Fatalf("file %q, error %v, want %q", text, err, want)
	}
	for range 2 { // the second time there is nothing left to do
		if err := f.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("the file is still there: %v", err)
	}
}

func TestNewFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	if _, err := Write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v, error %v", info.Mode(), err)
	}
}

func TestRemoveLeavesAnothersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	f, err := Write(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal("another process' file was removed")
	}
}

func TestLinkIsReplacedNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "precious"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(link); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "keep" {
		t.Errorf("the link was followed: %q, error %v", text, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "folder"), filepath.Join(dir, "no", "pid")} {
		if _, err := Write(path); err == nil {
			t.Errorf("%s: written", path)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}
