package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

// option is one line of the help text.
type option struct {
	short, long string // with dashes
	takesValue  bool
}

// helpLine matches an option in the help text; the value's name follows it in
// capitals.
var helpLine = regexp.MustCompile(`(?m)^  (?:(-\w), |    )(--[\w-]+)( [A-Z]+\S*)?  `)

func allOptions() []option {
	var out []option
	for _, m := range helpLine.FindAllStringSubmatch(options.Usage(), -1) {
		out = append(out, option{short: m[1], long: m[2], takesValue: m[3] != ""})
	}
	return out
}

// isProgram recognises the names that scripts start the daemon by.
func isProgram(word string) bool {
	return slices.Contains([]string{"vhost-net-go", "with-fd3", "daemon", "passt", "managed"}, word)
}

// scriptLines returns the words of all script lines that start the daemon:
// those that must work and those that must be refused.
func scriptLines(t *testing.T) (good, bad [][]string) {
	t.Helper()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts %v, error %v", scripts, err)
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			switch {
			case slices.ContainsFunc(words, isProgram):
				good = append(good, words)
			case len(words) > 0 && words[0] == "bad":
				args, _, _ := strings.Cut(line, " -- ")
				bad = append(bad, strings.Fields(args))
			}
		}
	}
	return good, bad
}

// TestScriptsCoverEveryOption keeps the scripts complete: each option is used
// once as it should be and, if it takes a value, once with a wrong one.
func TestScriptsCoverEveryOption(t *testing.T) {
	good, bad := scriptLines(t)
	all := allOptions()
	if len(all) < 40 {
		t.Fatalf("only %d options found in the help text", len(all))
	}
	used := func(lines [][]string, o option) bool {
		return slices.ContainsFunc(lines, func(words []string) bool {
			return slices.ContainsFunc(words, func(w string) bool {
				return (o.short != "" && w == o.short) || w == o.long || strings.HasPrefix(w, o.long+"=")
			})
		})
	}
	for _, o := range all {
		if !used(good, o) && o.long != "--fd" { // with-fd3 passes it
			t.Errorf("no script uses %s", o.long)
		}
		if o.takesValue && !used(bad, o) {
			t.Errorf("no script gives %s a wrong value", o.long)
		}
	}
}
