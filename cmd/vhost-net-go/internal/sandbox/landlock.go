package sandbox

import (
	"errors"
	"fmt"
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
	var rules []landlock.Rule
	for _, dir := range cfg.RemoveIn {
		rules = append(rules, landlock.PathAccess(ll.AccessFSRemoveFile, dir).IgnoreIfMissing())
	}
	for _, path := range cfg.Read {
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			rules = append(rules, landlock.PathAccess(ll.AccessFSReadFile|ll.AccessFSReadDir, path))
		default:
			rules = append(rules, landlock.PathAccess(ll.AccessFSReadFile, path))
		}
	}
	for _, dir := range socketFolders(cfg) {
		rules = append(rules, landlock.PathAccess(0, dir).WithResolveUnix().IgnoreIfMissing())
	}
	// What newer kernels can forbid besides: signals, abstract sockets,
	// connecting to sockets in the file system. TCP and UDP are the daemon's job.
	c := landlock.Config{HandledAccessFS: landlock.V9.HandledAccessFS, Scoped: landlock.V9.Scoped}
	if err := c.BestEffort().Restrict(rules...); err != nil {
		return err
	}
	return nil
}

// socketFolders are where UNIX sockets that are sent to lie: folders, since a
// socket is a new file whenever its owner starts again.
func socketFolders(cfg Config) (dirs []string) {
	if cfg.Dial != "" {
		dirs = append(dirs, filepath.Dir(cfg.Dial))
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
