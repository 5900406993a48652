package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

const userNSEnv = "VHOST_NET_GO_USERNS"

// InUserNS tells whether this process was started by EnterUserNS.
func InUserNS() bool { return os.Getenv(userNSEnv) != "" }

// EnterUserNS runs this program again as root of a user namespace of its own, where an ordinary user may make network and
// mount namespaces, and exits with its status. It returns only with an error: the machine does not allow that.
func EnterUserNS() error {
	attr := func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			Pdeathsig:   syscall.SIGKILL,
		}
	}
	// Some machines allow the namespace but nothing inside; mounting shows it.
	probe := exec.Command("/bin/sh", "-c", "mount -t tmpfs none /tmp")
	probe.SysProcAttr = attr()
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("this machine does not let a normal user make namespaces: %w %s", err, out)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = attr()
	cmd.Env = append(os.Environ(), userNSEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	}
	return fmt.Errorf("enter a user namespace: %w", err)
}
