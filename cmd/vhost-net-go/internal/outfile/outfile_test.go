package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// folder makes one with exactly this mode.
func folder(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// opens wants what err says of a path, and what is opened if it is nil.
func opens(t *testing.T, what, path, same string, want error) {
	t.Helper()
	f, err := Open(path, os.O_WRONLY)
	if pathErr := new(fs.PathError); !errors.Is(err, want) || err != nil && !errors.As(err, &pathErr) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
	if err != nil {
		return
	}
	defer f.Close()
	got, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := os.Stat(same)
	if err != nil || !os.SameFile(got, wanted) {
		t.Errorf("%s: opened another file than %s, error %v", what, same, err)
	}
}

func TestOpenCreates(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, mode := range []fs.FileMode{0o700, 0o777, 0o777 | fs.ModeSticky} {
		path := filepath.Join(folder(t, mode), "new")
		opens(t, "new", path, path, nil)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, error %v", info.Mode(), err)
		}
		opens(t, "existing", path, path, nil)
	}
	opens(t, "no folder", filepath.Join(t.TempDir(), "no", "file"), "", fs.ErrNotExist)
	opens(t, "a folder", t.TempDir(), "", unix.EISDIR)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	link := filepath.Join(folder(t, 0o700), "link")
	at := mustLink(t, w, link)
	opens(t, "a pipe", at, at, nil)
	opens(t, "a pipe behind a link", link, at, nil)
}

// mustLink makes a link to an open file and returns its target.
func mustLink(t *testing.T, f *os.File, link string) string {
	t.Helper()
	target := filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd())))
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	return target
}

func TestOpenFollows(t *testing.T) {
	elsewhere, dir := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "target")
	for _, l := range [][2]string{{target, "absolute"}, {"absolute", "relative"}, {"loop", "loop"}} {
		if err := os.Symlink(l[0], filepath.Join(dir, l[1])); err != nil {
			t.Fatal(err)
		}
	}
	opens(t, "to what is not there yet", filepath.Join(dir, "relative"), target, nil)
	opens(t, "absolute", filepath.Join(dir, "absolute"), target, nil)
	opens(t, "loop", filepath.Join(dir, "loop"), "", unix.ELOOP)
	// A folder without the sticky bit: whoever likes puts another link there.
	public := folder(t, 0o777)
	if err := os.Symlink(target, filepath.Join(public, "link")); err != nil {
		t.Fatal(err)
	}
	opens(t, "no sticky bit", filepath.Join(public, "link"), "", ErrLink)
	sticky := folder(t, 0o777|fs.ModeSticky)
	if err := os.Symlink(target, filepath.Join(sticky, "link")); err != nil {
		t.Fatal(err)
	}
	opens(t, "our own link", filepath.Join(sticky, "link"), target, nil)
	if err := os.Link(target, filepath.Join(sticky, "hard")); err != nil {
		t.Fatal(err)
	}
	opens(t, "a second name", filepath.Join(sticky, "hard"), "", ErrFile)
}

// TestOpenRefusesForeign: links and files that another user laid.
func TestOpenRefusesForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to another user")
	}
	const other = 4321
	target := filepath.Join(t.TempDir(), "target")
	sticky := folder(t, 0o777|fs.ModeSticky)
	link, file := filepath.Join(sticky, "link"), filepath.Join(sticky, "file")
	private := t.TempDir()
	ours := filepath.Join(private, "link")
	err := errors.Join(os.WriteFile(target, nil, 0o600), os.WriteFile(file, nil, 0o666),
		os.Symlink(target, link), os.Symlink(link, ours),
		os.Lchown(link, other, other), os.Lchown(file, other, other))
	if err != nil {
		t.Fatal(err)
	}
	opens(t, "another's link", link, "", ErrLink)
	opens(t, "a link to it", ours, "", ErrLink)
	// Where the kernel looks itself (fs.protected_regular) its answer comes first.
	if _, err := Open(file, os.O_WRONLY); !errors.Is(err, ErrFile) && !errors.Is(err, unix.EACCES) {
		t.Errorf("another's file: error %v", err)
	}
}
