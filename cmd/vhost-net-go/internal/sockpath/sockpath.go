// Package sockpath finds a path for a vhost-user socket when the user gave
// none.
package sockpath

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// maxProbes is how many numbered paths are tried.
const maxProbes = 99

// probeTimeout bounds the connection attempt that tells a live socket from a
// stale file.
const probeTimeout = time.Second

// ErrNone is returned when all numbered paths are taken.
var ErrNone = errors.New("no free socket path")

// Dir returns the folder for default paths: the user's own runtime folder if
// the session has one, or else the system's temporary folder.
func Dir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return os.TempDir()
}

// First returns the first of vhost-net-go_1.socket, vhost-net-go_2.socket, ...
// in dir that nobody listens on. A stale file there may be replaced by the
// caller. It is a proposal: another process can still be quicker.
func First(dir string) (string, error) { return first(dir, "vhost-net-go") }

// FirstPasst does the same where passt's users look: /tmp/passt_1.socket, ...
func FirstPasst(string) (string, error) { return first("/tmp", "passt") }

func first(dir, name string) (string, error) {
	for n := 1; n <= maxProbes; n++ {
		path := filepath.Join(dir, fmt.Sprintf("%s_%d.socket", name, n))
		if free(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s/%s_1.socket to _%d are all in use; name one with --socket", ErrNone, dir, name, maxProbes)
}

// free reports whether path can be listened on: it does not exist, or is a
// socket of ours that nobody answers on.
func free(path string) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() {
		return false
	}
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, unix.ECONNREFUSED)
}
