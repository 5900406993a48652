package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childEnv carries the view from Start to Main in the process that it starts.
const childEnv = "VHOST_NET_GO_SANDBOX"

// Command is a program to run. It is a plain value; Start may be called once per Process wanted.
type Command struct {
	Args []string
	Env  []string // added to the environment
	// Root is the root file system, of which the program sees a copy that it may write to and that ends with it. Empty means
	// the machine's own, without namespaces for files and processes.
	Root string
	// Scratch is an empty folder for the copy's mount points. It is needed if Root is set, by one running Command at a time.
	Scratch string
	// Share are folders of the machine that are seen below Root under the same path.
	Share []string
	// Net is the network namespace; nil means the caller's.
	Net *NetNS
	// UID, if not 0, is the user and group to run as.
	UID uint32
	// Foreground lets the program use the terminal that the caller has.
	Foreground bool
	// Files become descriptors 3 and up.
	Files          []*os.File
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Process is a running Command with all the processes it started.
type Process struct {
	cmd    *exec.Cmd
	inner  bool
	done   chan struct{}
	err    error
	cancel context.CancelFunc
}

// view is what Main needs to know.
type view struct {
	Args          []string
	Root, Scratch string
	Share         []string
	Files         int
	UID           uint32
}

// Start starts c. The process and all below it are killed when ctx ends, and when the calling process ends.
func Start(ctx context.Context, c Command) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = append(os.Environ(), c.Env...)
	attr := &syscall.SysProcAttr{Setpgid: !c.Foreground, Pdeathsig: syscall.SIGKILL}
	if c.UID != 0 && c.Root == "" {
		attr.Credential = &syscall.Credential{Uid: c.UID, Gid: c.UID}
	}
	if c.Root != "" {
		spec, err := json.Marshal(view{Args: c.Args, Root: c.Root, Scratch: c.Scratch, Share: c.Share, Files: len(c.Files), UID: c.UID})
		if err != nil {
			cancel()
			return nil, err
		}
		cmd = exec.CommandContext(ctx, "/proc/self/exe")
		cmd.Env = append(os.Environ(), c.Env...)
		cmd.Env = append(cmd.Env, childEnv+"="+string(spec), "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8")
		attr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	}
	cmd.SysProcAttr = attr
	cmd.ExtraFiles = c.Files
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if c.Root == "" && !c.Foreground {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	} // Otherwise killing cmd is enough: it is the first of its process namespace.
	cmd.WaitDelay = 2 * time.Second

	start := cmd.Start
	if c.Net != nil {
		start = func() error { return c.Net.Do(cmd.Start) }
	}
	if err := start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	p := &Process{cmd: cmd, inner: c.Root != "", done: make(chan struct{}), cancel: cancel}
	go func() {
		p.err = cmd.Wait()
		cancel()
		close(p.done)
	}()
	return p, nil
}

// Run starts c, waits for its end and returns what it wrote. An error holds the last of it too.
func Run(ctx context.Context, c Command) (string, error) {
	var out limitedBuffer
	c.Stdout, c.Stderr = &out, &out
	p, err := Start(ctx, c)
	if err != nil {
		return "", err
	}
	if err := p.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", c.Args[0], err, out.Tail(600))
	}
	return out.String(), nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the process's end and returns its exit status like exec.Cmd's Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Kill ends the process and all below it, and waits until they are gone.
func (p *Process) Kill() {
	p.cancel()
	<-p.done
}

// Signal sends a signal to the program.
func (p *Process) Signal(sig syscall.Signal) error {
	pid, err := p.PID()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}
