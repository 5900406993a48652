package manual

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/tooltest"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := Page("1.0", "2026-12-01")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTableHasEveryOption compares the table with the help text, which is made
// by another way.
func TestTableHasEveryOption(t *testing.T) {
	var inHelp []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(options.Usage(), -1) {
		inHelp = append(inHelp, m[1])
	}
	var inTable []string
	for _, o := range all() {
		inTable = append(inTable, o.Name)
		if o.Usage == "" || strings.ContainsAny(o.Usage, "`\n") {
			t.Errorf("--%s: usage %q", o.Name, o.Usage)
		}
	}
	if len(inTable) < 50 || !slices.Equal(inHelp, inTable) {
		t.Errorf("help text:\n%q\ntable:\n%q", inHelp, inTable)
	}
}

// TestPage reads the page as a reader does.
func TestPage(t *testing.T) {
	for line := range strings.Lines(tooltest.Run(t, page(t), "mandoc", "-Tlint", "-Wwarning")) {
		t.Error(strings.TrimSpace(line))
	}
	shown := tooltest.Run(t, page(t), "mandoc", "-Tascii", "-Owidth=200")
	shown = regexp.MustCompile(`.\x08`).ReplaceAllString(shown, "")
	for _, s := range options.Sections() {
		for _, o := range s.Options {
			line := " +" + strings.Join(names(o), ", ")
			if o.Value != "" {
				line += " " + regexp.QuoteMeta(o.Value)
			}
			if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(shown) {
				t.Errorf("the page lacks the line %q", line)
			}
		}
	}
	for _, want := range []string{"~8005, ~8005-8007", "192.0.2.1%eth0", `-machine q35,memory-backend=mem -m 1G \`, "tcp-ports 127.0.0.1/2222:22"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestRoff(t *testing.T) {
	const odd = `.a\b'c~d^e-f`
	if got, want := roff(odd), `\&.a\eb\(aqc\(tid\(hae\-f`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// bash answers what it completes the words to.
func bash(t *testing.T, words ...string) []string {
	t.Helper()
	script := file(t, "c.bash", Bash())
	out := tooltest.Run(t, "", "bash", append([]string{"-c", `source "$0"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vhost_net_go; printf '%s\n' "${COMPREPLY[@]}"`, script}, words...)...)
	return strings.Fields(out)
}

func TestBash(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/vm1.conf", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		words []string
		want  []string
	}{
		{[]string{"--no-i"}, []string{"--no-icmp"}},
		{[]string{"--socket-p"}, []string{"--socket-path"}},
		{[]string{"--config", dir + "/v"}, []string{dir + "/vm1.conf"}},
		{[]string{"--config", "=", dir + "/v"}, []string{dir + "/vm1.conf"}},
		{[]string{"-i", "l"}, []string{"lo"}},
		{[]string{"--outbound-if4", "=", "l"}, []string{"lo"}},
		{[]string{"--runas", "roo"}, []string{"root"}},
		{[]string{"-m", ""}, nil},
		{[]string{"-1", "--one"}, []string{"--one-off"}},
		{[]string{"--nonsense"}, nil},
	} {
		got := bash(t, append([]string{"vhost-net-go"}, tt.words...)...)
		if tt.words[0] == "-i" || tt.words[0] == "--outbound-if4" { // there may be more
			got = slices.DeleteFunc(got, func(s string) bool { return s != "lo" })
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.words, got, tt.want)
		}
	}
	everything := bash(t, "vhost-net-go", "-")
	for _, o := range all() {
		for _, n := range names(o) {
			if !slices.Contains(everything, n) {
				t.Errorf("%s is not completed", n)
			}
		}
	}
}

// TestZsh looks at what the completion tells zsh's own function.
func TestZsh(t *testing.T) {
	script := file(t, "_vhost-net-go", Zsh())
	tooltest.Run(t, "", "zsh", "-n", script)
	specs := tooltest.Run(t, "", "zsh", "-fc", `_arguments() { print -rl -- "$@" }; source "$1"`, "zsh", script)
	for _, want := range []string{
		"*-1[exit when the frontend goes away]", "*--one-off[exit when the frontend goes away]",
		"*--socket=[PATH of", "*-s+[PATH of", "*--config=[FILE with more options", ":FILE:_files", ":IFNAME:_net_interfaces",
		":USER:_users", ":BYTES: ", `(mode='server') listens]`, `\[\[ADDR\]\[%IF\]/\]PORT`,
	} {
		if !strings.Contains(specs, want) {
			t.Errorf("there is no %q in:\n%s", want, specs)
		}
	}
	n := 2 // -s and -S
	for _, o := range all() {
		n += len(names(o))
	}
	if got := strings.Count(specs, "\n"); got != n {
		t.Errorf("%d specifications, want %d", got, n)
	}
}

func TestFish(t *testing.T) {
	script := file(t, "c.fish", Fish())
	ask := func(line string) string {
		return tooltest.Run(t, "", "fish", "--no-config", "-c", "source "+script+"; complete -C '"+line+"'")
	}
	for line, want := range map[string]string{
		"vhost-net-go --no-ic":                                "--no-icmp\tdrop ping; implies --no-ndp\n",
		"vhost-net-go --runas ro":                             "root",
		"vhost-net-go -i l":                                   "lo\t",
		"vhost-net-go --config=" + filepath.Dir(script) + "/": "c.fish",
	} {
		if got := ask(line); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	everything := ask("vhost-net-go --") + ask("vhost-net-go -")
	for _, o := range all() {
		for _, n := range names(o) {
			if !regexp.MustCompile(`(?m)^` + n + `\t`).MatchString(everything) {
				t.Errorf("%s is not completed", n)
			}
		}
	}
}
