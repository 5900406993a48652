// Package outfile opens the files that the daemon writes for its operator: its
// log, a capture.
package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Why a path is refused.
var (
	ErrLink = errors.New("is a link that another user made or may change, in a folder where everybody may write")
	ErrFile = errors.New("is another user's file, or has a second name, in a folder where everybody may write")
)

const (
	mode     = 0o600
	maxLinks = 40 // as the kernel has it (path_resolution(7))
)

// Open opens path, or creates it with mode 0600. It follows links, as an operator
// uses them to keep files elsewhere, but not those that somebody else may have
// laid: see ErrLink and ErrFile. Errors are of type *fs.PathError.
func Open(path string, flag int) (*os.File, error) {
	at, err := resolve(path)
	if err != nil {
		return nil, err
	}
	if fromKernel(at) {
		return os.OpenFile(at, flag, 0)
	}
	f, err := os.OpenFile(at, flag|os.O_CREATE|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	if err := checkFile(at, f); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: path, Err: err}, f.Close())
	}
	return f, nil
}

// fromKernel recognises the links of /proc/self/fd, behind which there need be no
// path.
func fromKernel(path string) bool { return strings.HasPrefix(path, "/proc/") }

// resolve follows the links at the path's end.
func resolve(path string) (string, error) {
	for at, n := path, 0; n < maxLinks; n++ {
		info, err := os.Lstat(at)
		if err != nil || info.Mode().Type() != fs.ModeSymlink || fromKernel(at) {
			return at, nil // opening it tells what is wrong
		}
		folder, err := os.Stat(filepath.Dir(at))
		if err != nil {
			return "", err
		}
		if forAll(folder) && (folder.Mode()&fs.ModeSticky == 0 || foreign(info, folder)) {
			return "", &fs.PathError{Op: "open", Path: path, Err: ErrLink}
		}
		target, err := os.Readlink(at)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Dir(at) + "/" + target // ".." goes up from where a linked folder is
		}
		at = target
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// checkFile looks at an open file, which may have been there before.
func checkFile(path string, f *os.File) error {
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil || !forAll(folder) {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode().IsRegular() && (foreign(info, folder) || ok && st.Nlink > 1) {
		return ErrFile
	}
	return nil
}

// forAll reports whether everybody may make files in a folder.
func forAll(folder fs.FileInfo) bool { return folder.Mode().Perm()&0o002 != 0 }

// foreign reports whether a file belongs neither to us nor to its folder's owner.
func foreign(info, folder fs.FileInfo) bool {
	owner := ownerOf(info)
	return owner != os.Geteuid() && owner != ownerOf(folder)
}

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
