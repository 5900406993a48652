package repocheck

import (
	"fmt"
	"strings"
)

// systemCallPackages may use golang.org/x/sys/unix and syscall; a folder that
// ends in "/..." stands for everything below it. Test files are exempt.
func systemCallPackages() []string {
	return []string{
		"vhostuser",
		"vhostuser/vutest",
		"vhostuser/wire", // file descriptors in socket messages
		"netstack/hostsock",
		"netstack/internal/nstest",   // makes network namespaces for tests
		"netstack/internal/ringtest", // maps memory that is not there
		"netstack/poller",
		"cmd/vhost-net-go/...",
		"qemu-tests/...",
	}
}

// importRules says what the packages below a folder must not import.
func importRules() []struct{ from, not, why string } {
	return []struct{ from, not, why string }{
		{"virtqueue", "vhostuser", "rings know nothing of the protocol"},
		{"virtqueue", "netstack", "rings know nothing of networks"},
		{"netstack", "vhostuser", "the stack meets rings through its own interface"},
		{"vhostuser", "netstack", "the protocol knows nothing of networks"},
		{"virtqueue", "cmd", "imports point away from cmd"},
		{"netstack", "cmd", "imports point away from cmd"},
		{"vhostuser", "cmd", "imports point away from cmd"},
		{"qemu-tests", "cmd", "guests are tested against the built binary"},
		{"internal", "cmd", "imports point away from cmd"},
	}
}

// checkUnsafe allows unsafe, and the linker tricks that amount to it, only in
// files that say so in their name.
func checkUnsafe(files []file) (problems []string) {
	for _, f := range files {
		if !f.isGo() || strings.HasSuffix(f.path, "_unsafe.go") || strings.HasSuffix(f.path, "_unsafe_test.go") {
			continue
		}
		for _, imp := range f.imports() {
			if imp == "unsafe" {
				problems = append(problems, f.path+": imports unsafe, but is not named *_unsafe.go")
			}
		}
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:linkname") {
					problems = append(problems, at(f, c.Pos())+": go:linkname, but the file is not named *_unsafe.go")
				}
			}
		}
	}
	return problems
}

// checkSystemCalls confines system calls to the packages whose job they are.
func checkSystemCalls(files []file) (problems []string) {
	for _, f := range files {
		if !f.isGo() || f.isTest() || allowed(f.dir(), systemCallPackages()) {
			continue
		}
		for _, imp := range f.imports() {
			if imp == "golang.org/x/sys/unix" || imp == "syscall" {
				problems = append(problems, fmt.Sprintf("%s: imports %s, but %s is not a package whose job is system calls", f.path, imp, f.dir()))
			}
		}
	}
	return problems
}

func allowed(dir string, list []string) bool {
	for _, p := range list {
		if below, ok := strings.CutSuffix(p, "/..."); ok {
			if dir == below || strings.HasPrefix(dir, below+"/") {
				return true
			}
		} else if dir == p {
			return true
		}
	}
	return false
}

// checkDirections enforces importRules, tests included.
func checkDirections(files []file) (problems []string) {
	for _, f := range files {
		if !f.isGo() {
			continue
		}
		for _, imp := range f.imports() {
			target, ours := strings.CutPrefix(imp, modulePath+"/")
			if !ours {
				continue
			}
			for _, r := range importRules() {
				if f.under(r.from) && (target == r.not || strings.HasPrefix(target, r.not+"/")) {
					problems = append(problems, fmt.Sprintf("%s: imports %s: %s", f.path, target, r.why))
				}
			}
		}
	}
	return problems
}
