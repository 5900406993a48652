package options

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sandbox"
)

// MaxSocketPath is the longest path that fits sockaddr_un (linux/un.h: 108
// bytes with the closing zero byte).
const MaxSocketPath = 107

// noValue is what an option without a value is set to when it is used.
const noValue = "true"

// funcValue makes a function an option value: it is called in command-line
// order, which is what "the last one wins" needs.
type funcValue struct {
	set func(string) error
	typ string // "bool" for an option without a value
}

func (v *funcValue) Set(text string) error { return v.set(text) }
func (v *funcValue) String() string        { return "" }
func (v *funcValue) Type() string          { return v.typ }

// valueP adds an option that takes a value.
func valueP(fs *pflag.FlagSet, name, short, usage string, set func(string) error) {
	fs.VarP(&funcValue{set: set}, name, short, usage)
}

// hidden adds an option that users have no need of.
func hidden(fs *pflag.FlagSet, name, usage string, set func(string) error) {
	valueP(fs, name, "", usage, set)
	fs.Lookup(name).Hidden = true
}

// doP adds an option without a value that calls f.
func doP(fs *pflag.FlagSet, name, short, usage string, f func()) {
	flag := fs.VarPF(&funcValue{typ: "bool", set: func(text string) error {
		if text != noValue {
			return errors.New("it takes no value")
		}
		f()
		return nil
	}}, name, short, usage)
	flag.NoOptDefVal = noValue
}

// accepted adds an option that changes nothing; without usage it is hidden.
func accepted(fs *pflag.FlagSet, name, short, usage string) {
	doP(fs, name, short, "accepted; "+usage, func() {})
	if usage == "" {
		fs.Lookup(name).Hidden = true
	}
}

// noted adds an option of passt that changes nothing here and is hidden: using
// it leaves a line for the log. value names its value, "" for none.
func noted(fs *pflag.FlagSet, o *Options, name, short, value, why string) {
	v := &funcValue{set: func(string) error {
		o.Notes = append(o.Notes, fmt.Sprintf("--%s has no effect: %s", name, why))
		return nil
	}}
	usage := "accepted; " + why
	if value != "" {
		usage = "accepted, with a `" + value + "`; " + why
	}
	flag := fs.VarPF(v, name, short, usage)
	flag.Hidden = true
	if value == "" {
		v.typ, flag.NoOptDefVal = "bool", noValue
	}
}

// setRunAs checks the form only; whether there is such a user is the system's
// to know.
func setRunAs(dst *string) func(string) error {
	return func(text string) error {
		user, group, hasGroup := strings.Cut(text, ":")
		if user == "" || hasGroup && group == "" || strings.ContainsRune(group, ':') {
			return errors.New("must be UID, UID:GID, LOGIN or LOGIN:GROUP")
		}
		*dst = text
		return nil
	}
}

func setInt(dst *int, lowest, highest int, unit string) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < lowest || n > highest {
			return fmt.Errorf("must be a number from %d to %d (%s)", lowest, highest, unit)
		}
		*dst = n
		return nil
	}
}

func setInt64(dst *int64, lowest, highest int64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < lowest || n > highest {
			return fmt.Errorf("must be a number from %d to %d (bytes)", lowest, highest)
		}
		*dst = n
		return nil
	}
}

func setSandbox(dst *sandbox.Mode) func(string) error {
	return func(text string) error {
		switch text {
		case "auto":
			*dst = sandbox.Auto
		case "require":
			*dst = sandbox.Require
		case "off":
			*dst = sandbox.Off
		default:
			return errors.New("must be auto, require or off")
		}
		return nil
	}
}

func setPath(dst *string) func(string) error {
	return func(text string) error {
		if text == "" || strings.ContainsRune(text, 0) {
			return errors.New("must be the path of a file")
		}
		*dst = text
		return nil
	}
}

func setSocketPath(dst *string) func(string) error {
	return func(text string) error {
		if text == "" || strings.ContainsRune(text, 0) {
			return errors.New("must be a path")
		}
		if len(text) > MaxSocketPath {
			return fmt.Errorf("is %d bytes long; a socket path has at most %d", len(text), MaxSocketPath)
		}
		*dst = text
		return nil
	}
}

// setFD refuses standard output and error: a socket there would get the log.
func setFD(dst *int) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 31)
		if err != nil || n < 0 || n == 1 || n == 2 {
			return errors.New("must be the number of an open descriptor: 0, or 3 and above")
		}
		*dst = int(n)
		return nil
	}
}

func setMode(dst *os.FileMode) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseUint(text, 8, 16)
		if err != nil || n > 0o777 {
			return errors.New("must be octal permission bits from 0 to 0777")
		}
		*dst = os.FileMode(n)
		return nil
	}
}

// onP adds an option without a value that switches dst on.
func onP(fs *pflag.FlagSet, dst *bool, name, short, usage string) {
	doP(fs, name, short, usage, func() { *dst = true })
}
