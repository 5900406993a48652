package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/background"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/inherit"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/pidfile"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/privileges"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/resolvfile"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sandbox"
	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

// startUp is the last part of a start, when everything is open.
type startUp struct {
	opts  options.Options
	plan  plan.Plan
	log   *logging.Log
	child *background.Child // nil in the foreground
	// manager is nil without one.
	manager *manager
	capture *dump

	pid     *pidfile.File
	resolv  *resolvfile.Reader // nil: we read the file ourselves
	changed bool               // the user
	done    bool               // who waits was told
}

// errEndedEarly is for supervisors, which take a clean end for a start that
// worked.
var errEndedEarly = errors.New("ended before it was ready")

// ready shows the start-up screen, writes the pid file, gives up privileges,
// starts the reader of the resolver file, enters the sandbox and tells whoever
// waits, in this order: a file in a folder of root's needs root, and the reader
// none of it. Once ctx is done nobody is told.
func (s *startUp) ready(ctx context.Context, forwards []netstack.Forward) (err error) {
	if err := s.inTime(ctx); err != nil {
		return err
	}
	s.log.Screen(screen(s.opts, s.plan, forwards).Text())
	if s.opts.PidFile != "" {
		path, err := filepath.Abs(s.opts.PidFile) // the folder may change
		if err == nil {
			s.pid, err = pidfile.Write(path)
		}
		if err != nil {
			return fmt.Errorf("-P, --pid %q: %w", s.opts.PidFile, err)
		}
		s.done = s.child == nil // who waits for the file goes on
	}
	if err := s.becomeUser(); err != nil {
		return err
	}
	s.startReader()
	box := sandboxConfig(s.opts, s.resolv != nil)
	if s.child != nil {
		if err := s.child.Prepare(); err != nil {
			return err
		}
		s.log.Detach() // the way to the system's log is one of files too
	}
	if err := enterSandbox(box, s.log); err != nil {
		return err
	}
	if err := s.capture.begin(); err != nil {
		return err
	}
	if err := s.inTime(ctx); err != nil {
		return err
	}
	if s.child != nil {
		if err := s.child.Ready(); err != nil {
			return err
		}
	}
	s.done = true
	s.manager.ready(s.opts)
	return nil
}

// inTime is an error if the end came before anybody was told of the start.
func (s *startUp) inTime(ctx context.Context) error {
	if s.done || ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errEndedEarly, context.Cause(ctx))
}

// startReader starts the process that reads the resolver file in our place, where a
// sandbox is wanted.
func (s *startUp) startReader() {
	if s.opts.Sandbox == sandbox.Off {
		return
	}
	var err error
	if s.resolv, err = resolvfile.Start(hostconf.DefaultSource().ResolvConf); err != nil {
		s.log.Warn("a resolver file that takes the place of today's will not be read", "error", err)
	}
}

// readResolvConf returns the resolver file's content once ready has returned.
func (s *startUp) readResolvConf() ([]byte, error) {
	if s.resolv != nil {
		return s.resolv.Read()
	}
	return os.ReadFile(hostconf.DefaultSource().ResolvConf)
}

// becomeUser changes to the user that is asked for. As passt does, under its
// name root becomes nobody where nothing is asked for.
func (s *startUp) becomeUser() error {
	spec := s.opts.RunAs
	if spec == "" {
		if !s.opts.Passt || !privileges.IsHostRoot() {
			return nil
		}
		spec = "nobody"
	}
	id, err := privileges.Lookup(spec)
	if err == nil {
		err = privileges.Become(id)
	}
	if err != nil {
		return fmt.Errorf("--runas %q: %w", spec, err)
	}
	s.changed = true
	s.log.Debug("running as", "uid", id.UID, "gid", id.GID)
	return nil
}

// undo removes the pid file. closed is how the socket was closed. Another user
// than the one that made these files may leave them; the next start, or who
// asked for them, replaces them.
func (s *startUp) undo(closed error) error {
	err := closed
	if s.pid != nil {
		err = errors.Join(err, s.pid.Remove())
	}
	if s.resolv != nil {
		_ = s.resolv.Close() // as the end of our process does
	}
	if s.changed && onlyForbidden(err) {
		s.log.Debug("files stay", "error", err)
		return nil
	}
	return err
}

// onlyForbidden reports whether each error that was joined is for want of
// permission.
func onlyForbidden(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !onlyForbidden(e) {
				return false
			}
		}
		return true
	}
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// useInherited lets sockets that were handed over take the place of those that
// the options ask for.
func useInherited(o *options.Options, s *inherit.Sockets) error {
	if s.FD >= 0 {
		asked, _ := filepath.Abs(o.SocketPath)
		bound, _ := filepath.Abs(s.Path)
		switch {
		case o.FD >= 0:
			return fmt.Errorf("-F, --fd %d: cannot be combined with a socket of the service manager's: there is one frontend", o.FD)
		case o.Client:
			return errors.New("--client: cannot be combined with a socket of the service manager's: it listens")
		case o.SocketPath != "" && asked != bound:
			return fmt.Errorf("-s, --socket %q: the service manager's socket is at %q", o.SocketPath, s.Path)
		}
		o.SocketPath = s.Path
	}
	o.Forwards = append(o.Forwards, s.Rules(o.Forwards)...)
	if err := forward.Check(o.Forwards); err != nil {
		return fmt.Errorf("sockets of the service manager's: %w", err)
	}
	return nil
}

// explainForward names the option of a rule that could not be met.
func explainForward(err error) error {
	open := new(forward.OpenError)
	if !errors.As(err, &open) {
		return err
	}
	option := "-t, --tcp-ports"
	if open.Rule.Proto == forward.UDP {
		option = "-u, --udp-ports"
	}
	which := ""
	switch {
	case open.Port == 0 && open.Rule.BestEffort:
		which = "none of the ports can be had: "
	case open.Rule.Ports() > 1:
		which = fmt.Sprintf("port %d: ", open.Port)
	}
	hint := ""
	if errors.Is(err, fs.ErrPermission) && open.Port > 0 {
		hint = "; ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE or a socket of the service manager's"
	}
	return fmt.Errorf("%s %q: %s%w%s", option, open.Rule.Spec(), which, open.Err, hint)
}
