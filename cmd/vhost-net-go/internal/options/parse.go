package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

// Parse reads the arguments that follow the program's name. An error names the
// option, its value and the rule it breaks, on one line. With Help, Version or
// PrintCapabilities set, only what could be parsed has been checked.
func Parse(args []string) (Options, error) { return parse(args, false) }

// ParsePasst reads the arguments of a program that goes by the name of passt,
// which detaches from its caller unless told not to, and needs to be told to
// speak vhost-user.
func ParsePasst(args []string) (Options, error) { return parse(args, true) }

func parse(args []string, passt bool) (Options, error) {
	o := Options{Passt: passt, FD: -1, ReconnectMs: DefaultReconnectMs, GSOMaxBytes: DefaultGSOMaxBytes, SocketMode: DefaultSocketMode}
	fwd := &forwardState{rules: map[forward.Proto][]forward.Rule{}, none: map[forward.Proto]bool{}}
	fs := newFlagSet(&o, fwd)
	if err := fs.Parse(args); err != nil {
		return Options{}, explain(err, args)
	}
	if o.Help || o.Version || o.PrintCapabilities {
		return o, nil
	}
	if fs.NArg() > 0 {
		return Options{}, fmt.Errorf("%q: unexpected argument; every argument belongs to an option", fs.Arg(0))
	}
	o.Forwards = slices.Concat(fwd.rules[forward.TCP], fwd.rules[forward.UDP])
	o.Background = o.Passt && !o.foreground
	if err := o.check(fs); err != nil {
		return Options{}, err
	}
	o.complete()
	return o, nil
}

// complete fills in what one option means for others.
func (o *Options) complete() {
	o.vhostUser, o.foreground = false, false
	if o.FD >= 0 {
		o.OneOff = true
	}
	if o.addrLen4 != 0 {
		o.PrefixLen4, o.addrLen4 = o.addrLen4, 0
	}
	if o.LogBytes == 0 {
		o.LogBytes = DefaultLogBytes
	}
	o.NoNDP = o.NoNDP || o.NoICMP
	o.NoRA = o.NoRA || o.NoNDP
}

// explain turns pflag's errors into ours.
func explain(err error, args []string) error {
	if inFile := new(fileError); errors.As(err, &inFile) {
		return inFile
	}
	if bad := new(pflag.InvalidValueError); errors.As(err, &bad) {
		value := bad.GetValue()
		if bad.GetFlag().NoOptDefVal != "" && value == noValue {
			return fmt.Errorf("%s: %w", flagName(bad.GetFlag()), bad.Unwrap())
		}
		return fmt.Errorf("%s %q: %w", flagName(bad.GetFlag()), value, bad.Unwrap())
	}
	if missing := new(pflag.ValueRequiredError); errors.As(err, &missing) {
		return fmt.Errorf("%s: a value is needed after it", flagName(missing.GetFlag()))
	}
	if unknown := new(pflag.NotExistError); errors.As(err, &unknown) {
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		return fmt.Errorf("%s: there is no such option; --help lists them all", name)
	}
	if syntax := new(pflag.InvalidSyntaxError); errors.As(err, &syntax) {
		return fmt.Errorf("%q: not an option; they look like -x or --name", syntax.GetSpecifiedFlag())
	}
	return fmt.Errorf("arguments %q: %w", args, err)
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return "-" + f.Shorthand + ", --" + f.Name
}

// Usage returns the text of --help.
func Usage() string {
	var b strings.Builder
	b.WriteString("Usage: vhost-net-go [OPTION]...\n\n" +
		"Gives a virtual machine a network over vhost-user, without privileges.\n\nOptions:\n")
	fs := newFlagSet(&Options{}, &forwardState{})
	b.WriteString(fs.FlagUsages())
	return b.String()
}
