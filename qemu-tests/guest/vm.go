package guest

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/factory"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// Config describes a guest.
type Config struct {
	// Name is unique in the lab and short.
	Name string
	// Script is run in the guest by sh after the functions of factory.Lib were read. Then the guest powers off.
	Script string
	// Socket is the path of the vhost-user socket.
	Socket string
	// Foreground gives the frontend the caller's terminal.
	Foreground bool
	// Tee, if not nil, receives the console's output too, and so does standard output if $VHOST_NET_GO_CONSOLE is set. Stdin is
	// the console's input.
	Tee   io.Writer
	Stdin io.Reader
}

// VM is a running guest.
type VM struct {
	Console *Console
	Process *sandbox.Process
	// QMP is the path of QEMU's control socket.
	QMP string
}

// start runs the frontend's command line on VMHost.
func start(ctx context.Context, l *lab.Lab, c Config, args []string) (*VM, error) {
	if c.Tee == nil && os.Getenv("VHOST_NET_GO_CONSOLE") != "" {
		c.Tee = os.Stdout
	}
	vm := &VM{Console: NewConsole(c.Tee)}
	command := l.Command(l.VMHost, args...)
	command.Stdin, command.Stdout, command.Stderr = c.Stdin, vm.Console, vm.Console
	command.Foreground = c.Foreground
	p, err := sandbox.Start(ctx, command)
	if err != nil {
		return nil, err
	}
	vm.Process = p
	go func() {
		<-p.Done()
		vm.Console.end()
	}()
	return vm, nil
}

// Stop ends the guest, however far it is.
func (vm *VM) Stop() { vm.Process.Kill() }

// fullScript is what the guest runs.
func fullScript(script string) string {
	return fmt.Sprintf("%s\n%s\necho\necho @done\n", factory.Lib(), script)
}
