// Package sandbox takes away from the process what it does not need once it
// runs, so that whoever gets hold of it from inside a guest has little in hand:
// memory that is shared with the guest, and the sockets of that guest.
//
// There are four layers, each useful without the others:
//
//   - process: no core dumps, no debugger (not dumpable), no new privileges;
//   - capabilities: none, in any thread;
//   - files: Landlock allows no file but those named in [Config], no signal and no
//     abstract socket of other processes;
//   - system calls: seccomp allows those that the daemon makes, with their
//     arguments where those matter. The others fail with EPERM.
//
// All of them last as long as the process.
package sandbox

import (
	"errors"
	"fmt"
)

// Mode says what happens if the kernel lacks a layer.
type Mode uint8

// The modes. The zero Mode is the default.
const (
	Auto    Mode = iota // go on with the others, and tell
	Require             // fail
	Off                 // no layer at all
)

// Config says what has to work later.
type Config struct {
	Mode Mode
	// Skipped gets an error for each path below that is not there, or that this
	// user does not get to; nil: nobody wants to know.
	Skipped func(error)
	// RemoveIn are folders in which files are removed when the process ends:
	// its socket, its pid file.
	RemoveIn []string
	// Read are files and folders that are read again later. What does not exist
	// is left out.
	Read []string
	// Dial is the path of a UNIX socket to which connections are made; "" for
	// none: then no UNIX socket can be made. Its folder shall exist; otherwise
	// sockets in all of the closest folder above it that does can be connected to.
	Dial string
	// Log is the path of a UNIX socket to which a socket that is open sends
	// datagrams, "" for none. Another socket, behind another link, may take its
	// place.
	Log string
}

// layer is one of the layers.
type layer struct {
	name  string
	enter func(Config) error
}

// layers come in this order: the last one takes away the system calls that the
// others need.
func layers() []layer {
	return []layer{
		{"process", enterProcess},
		{"capabilities", dropCapabilities},
		{"files (Landlock)", enterLandlock},
		{"system calls (seccomp)", enterSeccomp},
	}
}

// Enter applies all layers to all threads of the process. missing are those
// that this kernel, or a sandbox around this process, does not allow: in mode
// Auto they are left out, in mode Require they are an error.
func Enter(cfg Config) (missing []error, err error) {
	return enter(cfg, layers())
}

func enter(cfg Config, ls []layer) (missing []error, err error) {
	if cfg.Mode == Off {
		return nil, nil
	}
	for _, l := range ls {
		if err := l.enter(cfg); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", l.name, err))
		}
	}
	if cfg.Mode == Require && len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	return missing, nil
}
