package factory

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"
)

func TestAppendScriptMakesASecondArchive(t *testing.T) {
	dir := t.TempDir()
	base, out := filepath.Join(dir, "base"), filepath.Join(dir, "out")
	if err := writeArchive(base, append(layout(), cpio.StaticFile("init", initScript, 0o755))); err != nil {
		t.Fatal(err)
	}
	const script = "echo hello\n"
	if err := AppendScript(base, out, script); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	both, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(both, first) {
		t.Error("the first archive was changed")
	}
	second := bytes.TrimLeft(both[len(first):], "\x00")
	if offset := len(both) - len(second); offset%4 != 0 {
		t.Errorf("the second archive starts at %d, which Linux does not accept", offset)
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(second)))
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 1 || records[0].Name != "script" {
		t.Errorf("records: %v", records)
	}
}

func TestLayoutMakesFoldersBeforeWhatIsInThem(t *testing.T) {
	seen := map[string]bool{".": true}
	for _, r := range layout() {
		if !seen[filepath.Dir(r.Name)] {
			t.Errorf("%s comes before its folder", r.Name)
		}
		seen[r.Name] = true
	}
}

func TestLibrariesOfThisMachinesShell(t *testing.T) {
	libs, err := libraries("/", "/bin/sh")
	if err != nil {
		t.Skipf("not a Debian machine: %v", err)
	}
	joined := strings.Join(libs, " ")
	for _, want := range []string{"libc.so.6", "ld-linux-x86-64.so.2"} {
		if !strings.Contains(joined, want) {
			t.Errorf("no %s in %s", want, joined)
		}
	}
}

func TestModuleDependsRefusesWhatIsNoModule(t *testing.T) {
	for name, data := range map[string][]byte{"nothing": nil, "text": []byte("not ELF at all, really not"), "program": readFile(t, "/proc/self/exe")} {
		if got, err := moduleDepends(data); err == nil {
			t.Errorf("%s depends on %q", name, got)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzModuleDepends: a module comes from a package, but nothing that is read from outside may end the program.
func FuzzModuleDepends(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = moduleDepends(data)
	})
}
