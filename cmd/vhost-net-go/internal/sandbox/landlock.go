package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// enterLandlock forbids all files but those that cfg names. Files that are open
// stay usable.
func enterLandlock(cfg Config) error {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("not in this kernel: %w", err)
	}
	if abi < 1 {
		return errors.New("not in this kernel")
	}
	permits, skipped := permitsOf(cfg)
	if cfg.Skipped != nil {
		for _, err := range skipped {
			cfg.Skipped(err)
		}
	}
	rules := make([]landlock.Rule, 0, len(permits))
	for _, p := range permits {
		// What is removed in this very moment is no reason to go without a sandbox.
		rules = append(rules, landlock.PathAccess(p.access, p.path).IgnoreIfMissing())
	}
	// What newer kernels can forbid besides: signals, abstract sockets,
	// connecting to sockets in the file system. TCP and UDP are the daemon's job.
	c := landlock.Config{HandledAccessFS: landlock.V9.HandledAccessFS, Scoped: landlock.V9.Scoped}
	if err := c.BestEffort().Restrict(rules...); err != nil {
		return err
	}
	return nil
}

// permit says what may be done with a file, or with all that is in a folder.
type permit struct {
	path   string
	access landlock.AccessFSSet
}

// permitsOf lists what cfg asks for. A path that this user does not get to is left
// out and told of in skipped, as a permit only ever adds: without Landlock it could
// not be used either.
func permitsOf(cfg Config) (permits []permit, skipped []error) {
	add := func(path string, access landlock.AccessFSSet) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			skipped = append(skipped, err)
			return
		case !info.IsDir():
			access &^= ll.AccessFSReadDir
		}
		permits = append(permits, permit{path, access})
	}
	for _, dir := range cfg.RemoveIn {
		add(dir, ll.AccessFSRemoveFile)
	}
	for _, path := range cfg.Read {
		add(path, ll.AccessFSReadFile|ll.AccessFSReadDir)
	}
	for _, dir := range socketFolders(cfg) {
		add(dir, ll.AccessFSResolveUnix)
	}
	return permits, skipped
}

// socketFolders are where UNIX sockets that are sent to lie: folders, since a
// socket is a new file whenever its owner starts again.
func socketFolders(cfg Config) (dirs []string) {
	if cfg.Dial != "" {
		dirs = append(dirs, existing(filepath.Dir(cfg.Dial)))
	}
	if cfg.Log == "" {
		return dirs
	}
	dirs = append(dirs, filepath.Dir(cfg.Log))
	if target, err := os.Readlink(cfg.Log); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(cfg.Log), target)
		}
		dirs = append(dirs, filepath.Dir(target))
	}
	return dirs
}

// existing is dir, or the closest folder above it that is there: who is dialled may
// make its folder after us.
func existing(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
