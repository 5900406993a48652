// Package tooltest lets tests use programs that a machine may lack.
package tooltest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Need skips the test if a program is missing, and fails it where nothing may be
// skipped. It returns the program's path.
func Need(t testing.TB, program string) string {
	t.Helper()
	// Programs of the administrator are not in everybody's path.
	for _, dir := range []string{"", "/usr/sbin/", "/sbin/"} {
		if path, err := exec.LookPath(dir + program); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("nothing may be skipped here: %s is not installed", program)
	}
	t.Skipf("%s is not installed", program)
	return ""
}

// Run runs a program, with text as its input, and returns what it wrote. It
// must succeed.
func Run(t testing.TB, text string, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(Need(t, program), args...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}
