package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Main must be called first thing by every program that uses Start: in a process that Start made it sets up the view of the
// file system, runs the program as its child and exits with its status. Otherwise it returns at once.
func Main() {
	spec := os.Getenv(childEnv)
	if spec == "" {
		return
	}
	os.Unsetenv(childEnv)
	var v view
	err := json.Unmarshal([]byte(spec), &v)
	if err == nil {
		err = enter(v)
	}
	code := 0
	if err == nil {
		code, err = runChild(v)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
		code = 125
	}
	os.Exit(code)
}

// enter makes the view and moves this process into it.
func enter(v view) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", v.Scratch, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", v.Scratch, err)
	}
	root := filepath.Join(v.Scratch, "root")
	upper, work := filepath.Join(v.Scratch, "upper"), filepath.Join(v.Scratch, "work")
	for _, d := range []string{root, upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := mountOverlay(v.Root, upper, work, root); err != nil {
		return err
	}
	if err := mountSystem(root); err != nil {
		return err
	}
	for _, dir := range v.Share {
		if err := bind(dir, filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	return pivot(root)
}

// mountOverlay falls back to user.* attributes, the only ones that a user namespace may set.
func mountOverlay(lower, upper, work, at string) error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work)
	err := unix.Mount("overlay", at, "overlay", 0, options)
	if err != nil {
		err = unix.Mount("overlay", at, "overlay", 0, options+",userxattr")
	}
	if err != nil {
		return fmt.Errorf("mount an overlay of %s: %w", lower, err)
	}
	return nil
}

func mountSystem(root string) error {
	if err := unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, d := range []string{"/sys", "/dev"} {
		if err := bind(d, filepath.Join(root, d)); err != nil {
			return err
		}
	}
	for _, d := range []string{"run", "tmp"} {
		if err := unix.Mount("tmpfs", filepath.Join(root, d), "tmpfs", 0, "mode=1777"); err != nil {
			return fmt.Errorf("mount /%s: %w", d, err)
		}
	}
	return nil
}

func bind(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", from, err)
	}
	return nil
}

// pivot, unlike chroot, leaves the program free to make user namespaces of its own.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return os.Chdir("/")
}

// runChild runs the program and returns its exit status. This process is the first of its process namespace: it must collect
// orphans, and when it ends, the kernel kills all others.
func runChild(v view) (code int, err error) {
	unix.Umask(0) // sockets that the program makes can be used by the other side, whoever that runs as
	cmd := exec.Command(v.Args[0], v.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	for i := range v.Files {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(3+i), "inherited"))
	}
	if v.UID != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: v.UID, Gid: v.UID}}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for sig := range signals {
			_ = syscall.Kill(cmd.Process.Pid, sig.(syscall.Signal))
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for %s: %w", v.Args[0], err)
		case pid == cmd.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == cmd.Process.Pid:
			return status.ExitStatus(), nil
		}
	}
}
