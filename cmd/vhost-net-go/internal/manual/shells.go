package manual

import (
	"fmt"
	"strings"
)

// interfacesCommand lists the host's interfaces.
const interfacesCommand = "command ls /sys/class/net 2>/dev/null"

// Bash is the completion for bash(1). It needs no library of functions.
func Bash() string {
	var words []string
	byKind := map[kind][]string{}
	for _, o := range all() {
		words = append(words, names(o)...)
		byKind[kindOf(o)] = append(byKind[kindOf(o)], names(o)...)
	}
	var b strings.Builder
	b.WriteString(`# bash completion for vhost-net-go; made from its table of options

_vhost_net_go() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	COMPREPLY=()
	# --option=value comes as three words.
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	case $prev in
`)
	for _, c := range []struct {
		kind kind
		does string
	}{
		{path, "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\tcompopt -o filenames 2>/dev/null\n\t\treturn"},
		{iface, "mapfile -t COMPREPLY < <(compgen -W \"$(" + interfacesCommand + ")\" -- \"$cur\")\n\t\treturn"},
		{user, "mapfile -t COMPREPLY < <(compgen -u -- \"$cur\")\n\t\treturn"},
		{other, "return"},
	} {
		fmt.Fprintf(&b, "\t%s)\n\t\t%s\n\t\t;;\n", strings.Join(byKind[c.kind], " | "), c.does)
	}
	fmt.Fprintf(&b, "\tesac\n\tmapfile -t COMPREPLY < <(compgen -W %q -- \"$cur\")\n}\n\ncomplete -F _vhost_net_go vhost-net-go\n", strings.Join(words, " "))
	return b.String()
}

// Zsh is the completion for zsh(1), the file _vhost-net-go of its function path.
func Zsh() string {
	var b strings.Builder
	b.WriteString("#compdef vhost-net-go\n# made from vhost-net-go's table of options\n\n_arguments -s -S")
	for _, o := range all() {
		// The value follows as the next word or behind an equals sign.
		list := names(o)
		var forms []string
		for _, n := range list {
			if kindOf(o) != none && strings.HasPrefix(n, "--") {
				n += "="
			} else if kindOf(o) != none {
				n += "+"
			}
			forms = append(forms, n)
		}
		spec := "'*'" + forms[0]
		if len(forms) > 1 {
			spec = "'*'{" + strings.Join(forms, ",") + "}"
		}
		fmt.Fprintf(&b, " \\\n  %s'[%s]%s'", spec, zshText(o.Usage), zshValue(kindOf(o), o.Value))
	}
	b.WriteString("\n")
	return b.String()
}

func zshText(text string) string {
	return strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

func zshValue(k kind, name string) string {
	switch k {
	case none:
		return ""
	case path:
		return ":" + zshText(name) + ":_files"
	case iface:
		return ":" + zshText(name) + ":_net_interfaces"
	case user:
		return ":" + zshText(name) + ":_users"
	}
	return ":" + zshText(name) + ": "
}

// Fish is the completion for fish(1).
func Fish() string {
	var b strings.Builder
	b.WriteString("# made from vhost-net-go's table of options\n\ncomplete -c vhost-net-go -f\n")
	for _, o := range all() {
		b.WriteString("complete -c vhost-net-go")
		if o.Short != "" {
			b.WriteString(" -s " + o.Short)
		}
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			b.WriteString(" -l " + name)
		}
		switch kindOf(o) {
		case path:
			b.WriteString(" -r -F")
		case iface:
			b.WriteString(" -x -a '(" + interfacesCommand + ")'")
		case user:
			b.WriteString(" -x -a '(__fish_complete_users)'")
		case other:
			b.WriteString(" -x")
		}
		fmt.Fprintf(&b, " -d '%s'\n", strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(o.Usage))
	}
	return b.String()
}
