package repocheck

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits on size.
const (
	maxFunctionLines = 110
	maxMedianLines   = 150
	minTestRatio     = 0.8
)

// testSupport are folders with code that exists for tests only; they count
// neither as code nor as tests.
func testSupport() []string {
	return []string{"vhostuser/vutest", "virtqueue/virtqtest", "qemu-tests", "internal/repocheck"}
}

// at is a position as editors understand it.
func at(f file, pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(pos).Line)
}

// checkFunctions finds functions that are too long to be read at once.
func checkFunctions(files []file) (problems []string) {
	for _, f := range files {
		if !f.isGo() {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
			if n > maxFunctionLines && !(f.isTest() && mostlyTable(f, fn)) {
				problems = append(problems, fmt.Sprintf("%s: function %s has %d lines, at most %d are allowed", at(f, fn.Pos()), fn.Name.Name, n, maxFunctionLines))
			}
			if fn.Recv == nil && fn.Name.Name == "init" {
				problems = append(problems, at(f, fn.Pos())+": has an init function; set things up where they are used")
			}
		}
	}
	return problems
}

// mostlyTable reports whether a test function is within the limit once its
// composite literals, the rows of a table, are left out.
func mostlyTable(f file, fn *ast.FuncDecl) bool {
	line := func(p token.Pos) int { return f.fset.Position(p).Line }
	n := line(fn.End()) - line(fn.Pos()) + 1
	ast.Inspect(fn, func(node ast.Node) bool {
		lit, ok := node.(*ast.CompositeLit)
		if ok {
			n -= line(lit.End()) - line(lit.Pos())
		}
		return !ok
	})
	return n <= maxFunctionLines
}

// checkMedian keeps most files short enough for one sitting.
func checkMedian(files []file) []string {
	var sizes []int
	for _, f := range files {
		if f.isGo() && !f.isTest() {
			sizes = append(sizes, f.lines())
		}
	}
	if len(sizes) == 0 {
		return nil
	}
	slices.Sort(sizes)
	if median := sizes[len(sizes)/2]; median >= maxMedianLines {
		return []string{fmt.Sprintf("the median Go file has %d lines, it should have less than %d", median, maxMedianLines)}
	}
	return nil
}

// checkTestRatio compares the lines of tests with those of the code.
func checkTestRatio(files []file) []string {
	var code, tests int
	for _, f := range files {
		switch {
		case !f.isGo() && !f.isScript() || slices.ContainsFunc(testSupport(), f.under):
		case f.isTest() || f.isScript():
			tests += f.lines()
		default:
			code += f.lines()
		}
	}
	if code == 0 {
		return nil
	}
	if ratio := float64(tests) / float64(code); ratio < minTestRatio {
		return []string{fmt.Sprintf("%d lines of tests for %d lines of code: %.2f, at least %.1f is wanted", tests, code, ratio, minTestRatio)}
	}
	return nil
}

// checkPackageDocs wants a package comment in every package that others can
// import, and in every command.
func checkPackageDocs(files []file) (problems []string) {
	documented := map[string]bool{}
	for _, f := range files {
		if f.isGo() && !f.isTest() {
			documented[f.dir()] = documented[f.dir()] || f.syntax.Doc != nil
		}
	}
	for dir, ok := range documented {
		if !ok {
			problems = append(problems, dir+": the package has no comment")
		}
	}
	slices.Sort(problems)
	return problems
}

// The words are put together here so that this file does not contain them.
var (
	leftovers  = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}, "|") + `)\b`)
	workplaces = regexp.MustCompile(`(^|[^\w.-])(/wo` + `rk/|/opt/br` + `ief|\.\./sha` + `red/)`)
	// issueNumbers would be dead references outside the tracker.
	issueNumbers = regexp.MustCompile(`(?i)\bissue ` + `#?\d`)
)

// checkText looks for leftovers and for traces of where the code was written.
func checkText(files []file) (problems []string) {
	for _, f := range files {
		if path.Base(f.path) == "go.sum" {
			continue
		}
		for n, line := range strings.Split(string(f.text), "\n") {
			for _, rule := range []struct {
				re  *regexp.Regexp
				why string
			}{
				{leftovers, "unfinished work; finish it or leave it out"},
				{workplaces, "a path of one particular machine"},
				{issueNumbers, "the number of an issue"},
			} {
				if m := rule.re.FindString(line); m != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: %q: %s", f.path, n+1, strings.TrimSpace(m), rule.why))
				}
			}
		}
	}
	return problems
}

// checkDependencies wants each direct dependency of the daemon explained.
func checkDependencies(files []file) (problems []string) {
	var goMod, doc string
	for _, f := range files {
		switch f.path {
		case "go.mod":
			goMod = string(f.text)
		case "docs/dependencies.md":
			doc = string(f.text)
		}
	}
	for line := range strings.Lines(goMod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) < 2 || !strings.Contains(fields[0], ".") || !strings.HasPrefix(fields[1], "v") || strings.HasSuffix(strings.TrimSpace(line), "// indirect") {
			continue
		}
		if !strings.Contains(doc, fields[0]) {
			problems = append(problems, fmt.Sprintf("docs/dependencies.md: does not mention %s, which go.mod requires", fields[0]))
		}
	}
	return problems
}
