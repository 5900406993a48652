// Package factory makes what the guest tests need (a Debian tree with QEMU, User Mode Linux, libvirt and friends, a cloud
// kernel with an initramfs) from the distribution's own packages, into a cache folder.
//
// Everything is fetched with the machine's own apt and from the mirror that apt already uses, but with lists, archives
// and package state of its own: neither root nor a change to the machine's package configuration is needed.
package factory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Cache is a folder of finished products. A product is a sub-folder that appears under its final name only when it is
// complete, so an interrupted build never counts. Several processes may use one cache at the same time.
type Cache struct {
	// Dir is an absolute path. It holds downloaded packages too, and grows to about 2 GB.
	Dir string
	// Logf tells a waiting person what takes long.
	Logf func(format string, args ...any)
}

// OpenCache returns the cache at $VHOST_NET_GO_CACHE, or at vhost-net-go in the user's cache folder.
func OpenCache(logf func(format string, args ...any)) (*Cache, error) {
	dir := os.Getenv("VHOST_NET_GO_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache folder: %w (set VHOST_NET_GO_CACHE)", err)
		}
		dir = filepath.Join(base, "vhost-net-go")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache folder: %w", err)
	}
	return &Cache{Dir: dir, Logf: logf}, nil
}

// Once returns the path of the product called name. If it does not exist yet, build fills an empty folder, which then
// becomes the product; whoever asks meanwhile, in this or another process, waits.
func (c *Cache) Once(ctx context.Context, name string, build func(dir string) error) (string, error) {
	final := filepath.Join(c.Dir, name)
	if exists(final) {
		return final, nil
	}
	unlock, err := lock(ctx, final+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(final) {
		return final, nil
	}
	partial := final + ".partial"
	if err := removeTree(partial); err != nil {
		return "", fmt.Errorf("remove an unfinished %s: %w", name, err)
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	start := time.Now()
	c.Logf("building %s in %s ...", name, c.Dir)
	if err := build(partial); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	if err := os.Rename(partial, final); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	c.Logf("built %s in %.0f s", name, time.Since(start).Seconds())
	return final, nil
}

// lock takes an exclusive lock on the file at path. The kernel drops it when the process ends, however it ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TempDir makes a folder for one run, with a short name, and removes those of runs that ended without doing so.
func TempDir() (string, error) {
	const prefix = "/tmp/vhost-net-go.run-"
	old, _ := filepath.Glob(prefix + "*")
	for _, dir := range old {
		fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		// The folder's maker holds a lock on it. Another user's cannot be removed.
		if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = syscall.Close(fd)
	}
	dir, err := os.MkdirTemp(filepath.Dir(prefix), filepath.Base(prefix))
	if err != nil {
		return "", err
	}
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", dir, err)
	}
	// The descriptor stays open, and with it the lock, until the process ends.
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	return dir, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// removeTree is os.RemoveAll for trees that may hold folders without write permission.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, os.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
