package repocheck

import (
	"strings"
	"testing"
)

// rules are all of them, by the name of their subtest.
func rules() map[string]func([]file) []string {
	return map[string]func([]file) []string{
		"unsafe":       checkUnsafe,
		"systemcalls":  checkSystemCalls,
		"directions":   checkDirections,
		"functions":    checkFunctions,
		"median":       checkMedian,
		"testratio":    checkTestRatio,
		"packagedocs":  checkPackageDocs,
		"text":         checkText,
		"dependencies": checkDependencies,
	}
}

func TestRepository(t *testing.T) {
	files := tree(t)
	for name, rule := range rules() {
		t.Run(name, func(t *testing.T) {
			for _, p := range rule(files) {
				t.Error(p)
			}
		})
	}
}

// TestRules shows each rule a small tree that breaks it and one that does not.
func TestRules(t *testing.T) {
	long := strings.Repeat("\n", maxFunctionLines)
	table := "package p\nfunc TestX() {\nx := []int{\n" + strings.Repeat("1,\n", maxFunctionLines) + "}\n_ = x\n}\n"
	tests := []struct {
		rule       string
		path, text string
		want       string // part of the one problem; "": none
	}{
		{"unsafe", "virtqueue/a.go", "package p\nimport \"unsafe\"\n", "a.go: imports unsafe"},
		{"unsafe", "virtqueue/a_unsafe.go", "package p\nimport \"unsafe\"\n", ""},
		{"unsafe", "virtqueue/a_unsafe_test.go", "package p\nimport \"unsafe\"\n", ""},
		{"unsafe", "a.go", "package p\n\n//go:linkname a b\nfunc a()\n", "a.go:3: go:linkname"},
		{"systemcalls", "netstack/tcp/a.go", "package p\nimport \"golang.org/x/sys/unix\"\n", "netstack/tcp is not a package"},
		{"systemcalls", "netstack/tcp/a.go", "package p\nimport \"syscall\"\n", "imports syscall"},
		{"systemcalls", "netstack/tcp/a_test.go", "package p\nimport \"golang.org/x/sys/unix\"\n", ""},
		{"systemcalls", "netstack/poller/a.go", "package p\nimport \"golang.org/x/sys/unix\"\n", ""},
		{"systemcalls", "vhostuser/other/a.go", "package p\nimport \"golang.org/x/sys/unix\"\n", "vhostuser/other is not"},
		{"systemcalls", "cmd/vhost-net-go/internal/x/a.go", "package p\nimport \"golang.org/x/sys/unix\"\n", ""},
		{"directions", "virtqueue/a.go", "package p\nimport \"" + modulePath + "/vhostuser/wire\"\n", "imports vhostuser/wire: rings"},
		{"directions", "netstack/a_test.go", "package p\nimport \"" + modulePath + "/vhostuser\"\n", "its own interface"},
		{"directions", "netstack/a.go", "package p\nimport \"" + modulePath + "/virtqueue/iov\"\n", ""},
		{"directions", "cmd/vhost-net-go/a.go", "package p\nimport \"" + modulePath + "/netstack\"\n", ""},
		{"functions", "a.go", "package p\nfunc f() {" + long + "}\n", "a.go:2: function f has 111 lines"},
		{"functions", "a.go", "package p\nfunc f() {" + long[1:] + "}\n", ""},
		{"functions", "a_test.go", "package p\nfunc f() {" + long + "}\n", "function f has 111 lines"},
		{"functions", "a_test.go", table, ""},
		{"functions", "a.go", table, "function TestX"},
		{"functions", "a.go", "package p\nfunc init() {}\n", "init function"},
		{"median", "a.go", "package p\n" + strings.Repeat("\n", maxMedianLines), "the median"},
		{"median", "a_test.go", "package p\n" + strings.Repeat("\n", maxMedianLines), ""},
		{"testratio", "a.go", "package p\n", "0 lines of tests for 1 lines of code"},
		{"testratio", "a_test.go", "package p\n", ""},
		{"testratio", "vhostuser/vutest/a.go", "package p\n", ""},
		{"packagedocs", "x/a.go", "package p\n", "x: the package has no comment"},
		{"packagedocs", "x/a.go", "// Package p is.\npackage p\n", ""},
		{"text", "README.md", "a\nb TO" + "DO c\n", `README.md:2: "TO` + `DO"`},
		{"text", "a.sh", "cd /wo" + "rk/main\n", "a path of one particular machine"},
		{"text", "a.md", "see https://example.org/net/wo" + "rk/x\n", ""},
		{"text", "a.go", "// see issue " + "#12\npackage p\n", "the number of an issue"},
		{"dependencies", "go.mod", "require (\n\texample.org/x v1.0.0\n\texample.org/y v1.0.0 // indirect\n)\n", "example.org/x"},
		{"dependencies", "go.mod", "go 1.26.0\n\nrequire example.org/x v1.0.0\n", "example.org/x"},
		{"dependencies", "go.mod", "module example.org/x\n\ngo 1.26.0\n", ""},
	}
	for _, tt := range tests {
		f, err := newFile(tt.path, []byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		got := rules()[tt.rule]([]file{f})
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s, %s: %q, want no problem", tt.rule, tt.path, got)
		case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
			t.Errorf("%s, %s: %q, want one with %q", tt.rule, tt.path, got, tt.want)
		}
	}
}
