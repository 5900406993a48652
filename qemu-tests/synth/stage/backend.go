package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth"
)

// Program is a backend that understands passt's options.
type Program struct {
	Name string
	Path string
	// Root, if set, is a root file system that Path lies in: a program built
	// for another system than this one.
	Root string
	Args []string
	// FilesPerFlow is how many descriptors a TCP connection takes.
	FilesPerFlow int
	// keeps is how many of its descriptors a program keeps for other things.
	keeps func(files int) int
}

// MaxFlows is how many TCP connections the program takes at a time if it may
// have that many descriptors.
func (p Program) MaxFlows(files int) int { return (files - p.keeps(files)) / p.FilesPerFlow }

// Ours is the project's backend at path.
func Ours(path string) Program {
	return Program{
		Name: "vhost-net-go", Path: path, Args: []string{"-f", "-q"}, FilesPerFlow: 1,
		keeps: func(files int) int { return files/4 + 700 },
	} // UDP has a quarter
}

// Passt is passt at path, in the root file system root unless that is empty.
func Passt(path, root string) Program {
	return Program{
		Name: "passt", Path: path, Root: root, Args: []string{"--vhost-user", "-f", "-q"}, FilesPerFlow: 2,
		keeps: func(int) int { return 200 },
	}
}

// FindPasst looks for passt: in the environment (PASST, and PASST_ROOT if it
// lies in another root file system), then in what the guest tests have
// unpacked, then on this machine. It does not fetch anything.
func FindPasst() (Program, bool) {
	root := os.Getenv("PASST_ROOT")
	if path := os.Getenv("PASST"); path != "" {
		return Passt(path, root), true
	}
	var roots []string
	if root != "" {
		roots = []string{root}
	} else {
		cache := os.Getenv("VHOST_NET_GO_CACHE")
		if base, err := os.UserCacheDir(); cache == "" && err == nil {
			cache = filepath.Join(base, "vhost-net-go")
		}
		roots, _ = filepath.Glob(filepath.Join(cache, "tree-*", "root"))
	}
	for _, root := range append(roots, "") {
		if strings.Contains(root, ".partial") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "/usr/bin/passt")); err == nil {
			return Passt("/usr/bin/passt", root), true
		}
	}
	return Program{}, false
}

// Backend is a running Program.
type Backend struct {
	Program Program
	Socket  string // where it listens
	PID     int

	process *sandbox.Process
	log     string
}

// Start starts p on VM and waits until its socket is there. It serves a guest
// with the given MTU.
func (s *Stage) Start(ctx context.Context, p Program, mtu int, args ...string) (*Backend, error) {
	s.backends++
	name := filepath.Join(s.Dir, fmt.Sprintf("%s-%d", p.Name, s.backends))
	b := &Backend{Program: p, Socket: name + ".sock", log: name + ".log"}
	log, err := os.Create(b.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer log.Close()
	c := sandbox.Command{Args: append([]string{p.Path}, p.Args...), Net: s.VM, Stdout: log, Stderr: log}
	c.Args = append(c.Args, "-s", b.Socket, "-m", strconv.Itoa(mtu), "-4", "-D", "none")
	c.Args = append(c.Args, args...)
	if p.Root != "" {
		c.Root, c.Share, c.Scratch = p.Root, []string{s.Dir}, name+".mnt"
		if err := os.Mkdir(c.Scratch, 0o755); err != nil {
			return nil, fmt.Errorf("start %s: %w", p.Name, err)
		}
	}
	if b.process, err = sandbox.Start(ctx, c); err != nil {
		return nil, err
	}
	if err := b.wait(ctx); err != nil {
		text, _ := os.ReadFile(b.log)
		b.Stop()
		return nil, fmt.Errorf("start %s: %w: %s", p.Name, err, strings.TrimSpace(string(text)))
	}
	return b, nil
}

func (b *Backend) wait(ctx context.Context) (err error) {
	for range 1000 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.process.Done():
			return errors.New("it has ended")
		case <-time.After(5 * time.Millisecond):
		}
		if _, err := os.Stat(b.Socket); err == nil {
			b.PID, err = b.process.PID()
			return err
		}
	}
	return errors.New("its socket does not appear")
}

// Guest starts a synthetic guest on the backend. The socket may be there a
// moment before somebody listens on it.
func (b *Backend) Guest(cfg synth.Config) (*synth.Guest, error) {
	for try := 0; ; try++ {
		g, err := synth.Dial(b.Socket, cfg)
		if try < 100 && errors.Is(err, unix.ECONNREFUSED) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w; it says: %s", b.Program.Name, err, b.Log())
		}
		return g, nil
	}
}

// Stop ends the backend and waits for that.
func (b *Backend) Stop() { b.process.Kill() }

// Log returns what the backend has written, and how it ended if it has.
func (b *Backend) Log() string {
	text, _ := os.ReadFile(b.log)
	out := strings.TrimSpace(string(text))
	select {
	case <-b.process.Done():
		return fmt.Sprintf("%s (it has ended: %v)", out, b.process.Wait())
	default:
		return out
	}
}
