package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// Backend names a program that serves a guest and takes passt's options.
type Backend struct {
	Name string
	// Path is the program. If InTree is set it is one of the tree's, otherwise one of the machine's.
	Path   string
	InTree bool
	// Args stand before all others.
	Args []string
	// Client tells whether the program can connect to a listening frontend, with the option --client.
	Client bool
}

// Ours returns the project's own backend, built at path.
func Ours(path string) Backend {
	return Backend{Name: "vhost-net-go", Path: path, Args: []string{"-f"}, Client: true}
}

// Passt returns Debian's passt.
func Passt() Backend {
	return Backend{Name: "passt", Path: "/usr/bin/passt", InTree: true, Args: []string{"--vhost-user", "-f"}}
}

// Link says how the backend and the frontend find each other.
type Link struct {
	// Path of the socket; empty if File is set.
	Path string
	// Client makes the backend connect to Path instead of listening there.
	Client bool
	// File is a connected socket that the backend inherits.
	File *os.File
}

// StartBackend starts b on VMHost and returns when it can be used. Its messages go to a file name.log in Dir.
func (l *Lab) StartBackend(ctx context.Context, b Backend, name string, link Link, args ...string) (*sandbox.Process, error) {
	// As root, run without any privilege. In a user namespace there is only one user, and its root is none to the machine.
	c := sandbox.Command{Net: l.VMHost}
	if b.InTree {
		c = l.Command(l.VMHost)
	} else if os.Geteuid() == 0 && !sandbox.InUserNS() {
		c.UID = 65534
	}
	c.Args = append([]string{b.Path}, b.Args...)
	switch {
	case link.File != nil:
		c.Args = append(c.Args, "--fd", "3")
		c.Files = []*os.File{link.File}
	case link.Client:
		c.Args = append(c.Args, "-s", link.Path, "--client", "--reconnect-ms", "100")
	default:
		c.Args = append(c.Args, "-s", link.Path)
	}
	c.Args = append(c.Args, "-D", Peer4, "-D", Peer6)
	c.Args = append(c.Args, args...)
	logPath := filepath.Join(l.Dir, name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	listening := link.File == nil && !link.Client
	if listening {
		_ = os.Remove(link.Path) // left by a backend that was killed; its presence is what is waited for
	}
	p, err := sandbox.Start(ctx, c)
	if err != nil || !listening {
		return p, err
	}
	err = WaitFor(ctx, 5*time.Second, b.Name+" has not made its socket", func() bool {
		_, err := os.Stat(link.Path)
		return err == nil || ended(p)
	})
	if err == nil && ended(p) {
		text, _ := os.ReadFile(logPath)
		err = fmt.Errorf("%s ended: %w: %s", b.Name, p.Wait(), strings.TrimSpace(string(text)))
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func ended(p *sandbox.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}
