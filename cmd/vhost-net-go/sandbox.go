package main

import (
	"fmt"
	"path/filepath"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/hostconf"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sandbox"
)

// enterSandbox is the last step of the start: everything that needs files or
// privileges is open.
func enterSandbox(cfg sandbox.Config, log *logging.Log) error {
	cfg.Skipped = func(err error) { log.Debug("the sandbox has no rule for a path that we cannot use", "error", err) }
	missing, err := sandbox.Enter(cfg)
	if err != nil {
		return fmt.Errorf("--sandbox \"require\": %w", err)
	}
	for _, m := range missing {
		log.Warn("the sandbox lacks a layer", "layer", m)
	}
	return nil
}

// sandboxConfig lists what the daemon does with files once it runs. It is called
// while the current folder is still the caller's. hasReader says that another
// process reads the resolver file.
func sandboxConfig(opts options.Options, hasReader bool) sandbox.Config {
	cfg := sandbox.Config{Mode: opts.Sandbox}
	if opts.Background {
		cfg.Log = logging.SystemLog
	}
	switch {
	case opts.Client:
		cfg.Dial = absolute(opts.SocketPath)
	case opts.SocketPath != "":
		cfg.RemoveIn = append(cfg.RemoveIn, filepath.Dir(absolute(opts.SocketPath)))
	}
	if opts.PidFile != "" {
		path := absolute(opts.PidFile)
		cfg.RemoveIn = append(cfg.RemoveIn, filepath.Dir(path))
		cfg.Read = append(cfg.Read, path) // to see whether it is still ours
	}
	// Without that process, what comes in place of today's file cannot be read,
	// unless it has a folder of its own; /etc is not one.
	if resolv := hostconf.DefaultSource().ResolvConf; !hasReader {
		cfg.Read = append(cfg.Read, resolv)
		if target, err := filepath.EvalSymlinks(resolv); err == nil && filepath.Dir(target) != filepath.Dir(resolv) {
			cfg.Read = append(cfg.Read, filepath.Dir(target))
		}
	}
	return cfg
}

// absolute is a path that stays the same when the current folder changes.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
