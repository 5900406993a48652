package options

import (
	"errors"

	"github.com/spf13/pflag"
)

// An option that a passt user may bring along and that is known but refused.
type unsupported struct {
	name, short string
	takesValue  bool
	reason      error
}

var (
	errNotBuilt  = errors.New("this option of passt is not supported yet")
	errContainer = errors.New("this option belongs to pasta (containers); vhost-net-go serves virtual machines")
)

// unsupportedOptions lists them; the reason is printed as it stands.
func unsupportedOptions() []unsupported {
	return []unsupported{
		{"conf-path", "c", true, errNotBuilt},
		{"ns-ifname", "I", true, errContainer},
		{"tcp-ns", "T", true, errContainer},
		{"udp-ns", "U", true, errContainer},
		{"userns", "", true, errContainer},
		{"netns", "", true, errContainer},
		{"netns-only", "", false, errContainer},
		{"no-netns-quit", "", false, errContainer},
		{"config-net", "", false, errContainer},
		{"no-copy-routes", "", false, errContainer},
		{"no-copy-addrs", "", false, errContainer},
		{"ns-mac-addr", "", true, errContainer},
		{"splice-only", "", false, errContainer},
		{"no-splice", "", false, errContainer},
		{"host-lo-to-ns-lo", "", false, errContainer},
	}
}

// addUnsupported registers them hidden, so that using one names it and says
// why instead of calling it unknown.
func addUnsupported(fs *pflag.FlagSet) {
	for _, u := range unsupportedOptions() {
		flag := fs.VarPF(&funcValue{set: func(string) error { return u.reason }}, u.name, u.short, "")
		flag.Hidden = true
		if !u.takesValue {
			flag.NoOptDefVal = noValue
		}
	}
}
