// Package harness prepares a program that boots guests: its namespaces, the cache, a folder for the run, the guests' tool
// and the backend.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/factory"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// Harness is ready to boot guests, unless Unable says why not.
type Harness struct {
	Cache   *factory.Cache
	Tree    *factory.Tree
	Kernel  *factory.Kernel
	Agent   string
	Backend lab.Backend
	// Unable is the reason why this machine or user cannot boot guests; the fields above may be unset then.
	Unable error

	dir  string
	runs int
}

// Enter must be the first call of the program. It prepares the cache, and makes a normal user root of a user namespace. It
// may run the program again and exit.
func Enter(ctx context.Context, logf func(format string, args ...any)) (*Harness, error) {
	sandbox.Main()
	cache, err := factory.OpenCache(logf)
	if err != nil {
		return nil, err
	}
	h := &Harness{Cache: cache}
	// Before the namespace, where dpkg could not give files to anyone but root, and where there is no network.
	if h.Tree, err = cache.Tree(ctx); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		h.Unable = sandbox.EnterUserNS()
	} else if ns, err := sandbox.NewNetNS(); err != nil {
		h.Unable = err
	} else {
		ns.Close()
	}
	if h.dir, err = factory.TempDir(); err != nil {
		return nil, err
	}
	// Other users' processes (the backend as nobody) must reach what is in it.
	if err := os.Chmod(h.dir, 0o755); err != nil {
		return nil, err
	}
	h.removeOnSignal()
	if h.Unable != nil {
		return h, nil
	}
	return h, h.build(ctx)
}

// removeOnSignal ends the program on Ctrl-C. The kernel ends processes and namespaces; only the folder is left to do.
func (h *Harness) removeOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		sig := <-signals
		h.Close()
		fmt.Fprintf(os.Stderr, "ended by %v\n", sig)
		os.Exit(130)
	}()
}

func (h *Harness) build(ctx context.Context) (err error) {
	if h.Agent, err = factory.BuildAgent(ctx, h.dir); err != nil {
		return err
	}
	if h.Kernel, err = factory.MakeKernel(ctx, h.Tree, h.Agent, h.dir); err != nil {
		return err
	}
	h.Backend, err = h.chooseBackend(ctx)
	return err
}

// chooseBackend obeys $VHOST_NET_GO_BACKEND: the path of a vhost-net-go, or "passt" for Debian's. By default the project's own is
// built.
func (h *Harness) chooseBackend(ctx context.Context) (lab.Backend, error) {
	switch want := os.Getenv("VHOST_NET_GO_BACKEND"); want {
	case "passt":
		return lab.Passt(), nil
	case "":
		path, err := factory.BuildDaemon(ctx, h.dir)
		return lab.Ours(path), err
	default:
		// The user that the backend runs as may not reach the original.
		program, err := os.ReadFile(want)
		if err != nil {
			return lab.Backend{}, fmt.Errorf("VHOST_NET_GO_BACKEND: %w", err)
		}
		path := filepath.Join(h.dir, "vhost-net-go")
		return lab.Ours(path), os.WriteFile(path, program, 0o755)
	}
}

// NewLab sets up a pair of hosts with a folder that holds the guests' tool.
func (h *Harness) NewLab(ctx context.Context) (*lab.Lab, error) {
	if h.Unable != nil {
		return nil, h.Unable
	}
	h.runs++
	dir := filepath.Join(h.dir, fmt.Sprint(h.runs))
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, err
	}
	if err := os.Link(h.Agent, filepath.Join(dir, "guest-agent")); err != nil {
		return nil, err
	}
	return lab.New(ctx, h.Tree, dir)
}

// Close removes the folder of the run.
func (h *Harness) Close() error {
	if h.dir == "" {
		return errors.New("not prepared")
	}
	return os.RemoveAll(h.dir)
}
