package factory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func testCache(t *testing.T) *Cache {
	t.Helper()
	t.Setenv("VHOST_NET_GO_CACHE", filepath.Join(t.TempDir(), "cache"))
	c, err := OpenCache(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOnceBuildsOnceForAllWhoAsk(t *testing.T) {
	c := testCache(t)
	var builds atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := c.Once(t.Context(), "thing", func(dir string) error {
				builds.Add(1)
				time.Sleep(20 * time.Millisecond)
				return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestOnceForgetsUnfinishedBuilds(t *testing.T) {
	c := testCache(t)
	broken := errors.New("the power went")
	_, err := c.Once(t.Context(), "thing", func(dir string) error {
		locked := filepath.Join(dir, "no-writing-here")
		if err := os.MkdirAll(filepath.Join(locked, "below"), 0o755); err != nil {
			return err
		}
		return errors.Join(os.Chmod(locked, 0o555), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	dir, err := c.Once(t.Context(), "thing", func(dir string) error {
		left, err := os.ReadDir(dir)
		if len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
		return err
	})
	if err != nil || filepath.Base(dir) != "thing" {
		t.Errorf("%q, %v", dir, err)
	}
}

func TestLockGivesUpWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	again, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestTempDirRemovesWhatEndedRunsLeft(t *testing.T) {
	left, err := os.MkdirTemp("/tmp", "vhost-net-go.run-")
	if err != nil {
		t.Fatal(err)
	}
	mine, err := TempDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(mine)
	other, err := TempDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(other)
	if exists(left) {
		t.Error("the folder of a run that has ended is still there")
	}
	if !exists(mine) {
		t.Error("the folder of a run that goes on was removed")
	}
}
