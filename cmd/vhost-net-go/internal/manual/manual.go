// Package manual writes what goes with the program when it is installed: its
// manual page and the completions of the shells. All of it comes from the table
// of options, so that it cannot say anything else than the program does.
package manual

import (
	_ "embed"
	"strings"
	"text/template"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

// Page is the manual page in the man macros (man(7)). date is the last change's,
// as 2006-01-02.
func Page(version, date string) (string, error) {
	t, err := template.New("page").Funcs(template.FuncMap{"roff": roff, "sentence": sentence}).Parse(pageText)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, map[string]any{"Version": version, "Date": date, "Sections": options.Sections()})
	return b.String(), err
}

//go:embed page.tmpl
var pageText string

// roff writes text so that roff shows it as it is (man(7), groff_char(7)).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "~", `\(ti`, "^", `\(ha`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// sentence makes a sentence of a usage text.
func sentence(text string) string {
	return roff(strings.ToUpper(text[:1]) + text[1:] + ".")
}

// kind is what the value of an option is, for a shell.
type kind uint8

const (
	none kind = iota // the option takes no value
	other
	path
	iface
	user
)

func kindOf(o options.Described) kind {
	switch o.Value {
	case "":
		return none
	case "FILE", "PATH":
		return path
	case "IFNAME":
		return iface
	case "USER":
		return user
	}
	return other
}

// all are the options of all sections, without those that have no effect.
func all() []options.Described {
	var out []options.Described
	for _, s := range options.Sections() {
		for _, o := range s.Options {
			if !o.NoEffect {
				out = append(out, o)
			}
		}
	}
	return out
}

// names are an option's names with their dashes.
func names(o options.Described) []string {
	var out []string
	if o.Short != "" {
		out = append(out, "-"+o.Short)
	}
	out = append(out, "--"+o.Name)
	for _, a := range o.Aliases {
		out = append(out, "--"+a)
	}
	return out
}
