package options

import (
	"strings"

	"github.com/spf13/pflag"
)

// Section is a group of options as documents show it.
type Section struct {
	Title   string
	Options []Described
}

// Described is one option as documents show it.
type Described struct {
	Name    string // without dashes
	Aliases []string
	Short   string // one letter, or ""
	Value   string // name of its value in capitals, or ""
	Usage   string // one sentence without a full stop
	// NoEffect says that it is taken for the sake of passt's users only.
	NoEffect bool
}

// Sections returns all options that are taken, in the order of the help text.
// Those that have no effect here are not in the help text.
func Sections() []Section {
	var out []Section
	for _, g := range groups(&Options{}, &forwardState{}) {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SortFlags = false
		g.add(fs)
		s := Section{Title: g.title}
		fs.VisitAll(func(f *pflag.Flag) { s.Options = append(s.Options, describe(f)) })
		out = append(out, s)
	}
	return out
}

func describe(f *pflag.Flag) Described {
	d := Described{Name: f.Name, Short: f.Shorthand, Usage: f.Usage, NoEffect: f.Hidden}
	if f.NoOptDefVal == "" {
		d.Value, d.Usage = pflag.UnquoteUsage(f)
	}
	if f.Name == "socket" {
		d.Aliases = []string{"socket-path"}
		d.Usage = strings.Replace(d.Usage, "also --socket-path; ", "", 1)
	}
	return d
}
