package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// bootTimeout is how long a guest may take to its address.
const bootTimeout = time.Minute

// stand is a guest behind a backend, on hosts of its own. The guest runs the commands that it is given.
type stand struct {
	b           *bench
	name, guest string
	mtu         int

	lab      *lab.Lab
	backend  *sandbox.Process // nil: in QEMU
	vm       *guest.VM
	commands *io.PipeWriter
	steps    int
	idleMiB  float64
	closers  []func()
}

// newStand boots the guest on the backend called name.
func (b *bench) newStand(ctx context.Context, name, guestName string, mtu int) (*stand, error) {
	s := &stand{b: b, name: name, guest: guestName, mtu: mtu}
	if err := s.start(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("%s, %s, MTU %d: %w", name, guestName, mtu, err)
	}
	return s, nil
}

func (s *stand) start(ctx context.Context) (err error) {
	s.b.labs.Lock()
	s.lab, err = s.b.h.NewLab(ctx)
	s.b.labs.Unlock()
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.lab.Close)
	for name, args := range map[string][]string{
		"iperf3": {"iperf3", "-s"}, "netserver": {"netserver", "-D"}, "idle": {filepath.Join(s.lab.Dir, "guest-agent"), "hold", idlePort},
	} {
		p, err := s.lab.Start(ctx, s.lab.Peer, name, args...)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, p.Kill)
	}
	socket := filepath.Join(s.lab.Dir, "s")
	if err := s.startBackend(ctx, socket); err != nil {
		return err
	}
	if err := s.boot(ctx, socket); err != nil {
		return err
	}
	if s.backend != nil {
		u, err := s.usage()
		if err != nil {
			return err
		}
		s.idleMiB = float64(u.RSSBytes) / (1 << 20)
	}
	return nil
}

// startBackend starts what listens at socket.
func (s *stand) startBackend(ctx context.Context, socket string) (err error) {
	mtu := strconv.Itoa(s.mtu)
	switch s.name {
	case slirp:
		return nil
	case gvisor:
		s.backend, err = sandbox.Start(ctx, sandbox.Command{
			Args: []string{s.b.gvproxy.path, "-listen-qemu", "unix://" + socket, "-mtu", mtu}, Net: s.lab.VMHost,
		})
		time.Sleep(300 * time.Millisecond)
	case passt:
		s.backend, err = s.lab.StartBackend(ctx, lab.Passt(), "backend", lab.Link{Path: socket}, "-m", mtu)
	default:
		s.backend, err = s.lab.StartBackend(ctx, s.b.h.Backend, "backend", lab.Link{Path: socket}, "-m", mtu)
	}
	if err == nil {
		s.closers = append(s.closers, s.backend.Kill)
	}
	return err
}

const script = `ulimit -n 65536
stty -echo
step lease lease || exit
%sip link set eth0 mtu %d
iperf3 -s -D >/dev/null 2>&1
netserver >/dev/null 2>&1
step ready true
while read -r name command; do step $name sh -c "$command"; done
`

// boot starts the guest and waits until it takes commands.
func (s *stand) boot(ctx context.Context, socket string) (err error) {
	in, commands := io.Pipe()
	s.commands = commands
	six := "step slaac slaac || exit\n"
	if s.name == gvisor {
		six = ""
	}
	c := guest.Config{Name: "bench", Socket: socket, Stdin: in, Script: fmt.Sprintf(script, six, s.mtu)}
	if s.guest == umlGuest {
		uml, _ := guest.UMLs(s.lab)
		uml.Config = c
		s.vm, err = guest.StartUML(ctx, s.lab, uml)
	} else {
		q := guest.QEMUConfig{Config: c, Kernel: s.b.h.Kernel}
		switch s.name {
		case slirp:
			q.Other = "user,id=n0,ipv6-net=fd99::/64" // its own choice is an address that hosts do not take for a global one
		case gvisor:
			q.Other = stream(socket)
		}
		s.vm, err = guest.StartQEMU(ctx, s.lab, q)
	}
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.vm.Stop, func() { commands.Close() })
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	_, err = s.vm.Console.Step(ctx, "ready", 1)
	return err
}

func (s *stand) close() {
	for i := range s.closers {
		s.closers[len(s.closers)-1-i]()
	}
	s.closers = nil
}

// errCommand is a command that the guest has run without success: the guest is well.
var errCommand = errors.New("failed in the guest")

// inGuest runs a command in the guest and returns its last words.
func (s *stand) inGuest(ctx context.Context, timeout time.Duration, command string) (string, error) {
	s.steps++
	name := fmt.Sprintf("c%d", s.steps)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := fmt.Fprintf(s.commands, "%s %s\n", name, command); err != nil {
		return "", err
	}
	step, err := s.vm.Console.Step(ctx, name, 1)
	if err != nil {
		return "", err
	}
	if !step.OK {
		return "", fmt.Errorf("%w: %s: %s", errCommand, command, step.Detail)
	}
	return step.Detail, nil
}
