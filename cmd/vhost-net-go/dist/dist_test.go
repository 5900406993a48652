package dist

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/tooltest"
)

// documents writes what the packaging scripts want beside the program.
func documents(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tooltest.Run(t, "", "go", "run", "../internal/manual/generate", "-version", "1.0", "-epoch", "0", dir)
	return dir
}

// program stands in for the daemon, which takes long to build with the race
// detector.
func program(t *testing.T, says string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vhost-net-go")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+says+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// files lists what is below dir, without folders.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// installed are the files below PREFIX, but for zsh's.
func installed(prefix string) []string {
	var out []string
	for _, f := range []string{
		"/bin/vhost-net-go", "/lib/systemd/system/vhost-net-go@.service", "/lib/systemd/system/vhost-net-go@.socket",
		"/libexec/vhost-net-go/passt", "/share/bash-completion/completions/vhost-net-go", "/share/doc/vhost-net-go/copyright",
		"/share/doc/vhost-net-go/operations.md", "/share/fish/vendor_completions.d/vhost-net-go.fish", "/share/man/man1/vhost-net-go.1.gz",
		"/share/qemu/vhost-user/50-vhost-net-go.json",
	} {
		out = append(out, prefix+f)
	}
	return out
}

func TestInstall(t *testing.T) {
	docs, bin := documents(t), program(t, "hello")
	for prefix, more := range map[string][]string{
		"/usr/local": {"/usr/local/share/zsh/site-functions/_vhost-net-go"},
		"/usr":       {"/usr/share/zsh/vendor-completions/_vhost-net-go", "/etc/apparmor.d/vhost-net-go"},
	} {
		dest := t.TempDir()
		for range 2 { // again, over itself
			tooltest.Run(t, "", "sh", "install.sh", bin, docs, dest, prefix)
		}
		want := append(installed(prefix), more...)
		slices.Sort(want)
		if got := files(t, dest); !slices.Equal(got, want) {
			t.Errorf("%s: installed\n%q, want\n%q", prefix, got, want)
		}
		if out := tooltest.Run(t, "", dest+prefix+"/libexec/vhost-net-go/passt"); out != "hello\n" {
			t.Errorf("%s: the program under the name of passt says %q", prefix, out)
		}
		for _, name := range files(t, dest) {
			text, err := os.ReadFile(dest + name)
			if err != nil || strings.Contains(string(text), "@BINDIR@") {
				t.Errorf("%s: a place was not filled in, or error %v", name, err)
			}
		}
	}
}

// TestDescription holds the description against VhostUserBackend of QEMU's
// docs/interop/vhost-user.json: description, type and binary are needed, tags may
// be there, and nothing else.
func TestDescription(t *testing.T) {
	dest := t.TempDir()
	tooltest.Run(t, "", "sh", "install.sh", program(t, "x"), documents(t), dest, "/usr")
	text, err := os.ReadFile(dest + "/usr/share/qemu/vhost-user/50-vhost-net-go.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Description, Type, Binary string
		Tags                      []string
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	types := strings.Fields("9p balloon block caif console crypto gpu input net rng rpmsg rproc-serial scsi vsock fs")
	if d.Description == "" || d.Type != "net" || !slices.Contains(types, d.Type) || d.Binary != "/usr/bin/vhost-net-go" || !filepath.IsAbs(d.Binary) {
		t.Errorf("%+v", d)
	}
}

// TestUnits lets systemd read the units, and judge how much they allow.
func TestUnits(t *testing.T) {
	tooltest.Need(t, "systemd-analyze")
	dest := t.TempDir()
	tooltest.Run(t, "", "sh", "install.sh", program(t, "x"), documents(t), dest, "/usr")
	dir := t.TempDir()
	var units []string
	for _, ending := range []string{"socket", "service"} {
		text, err := os.ReadFile(dest + "/usr/lib/systemd/system/vhost-net-go@." + ending)
		if err != nil {
			t.Fatal(err)
		}
		// The program is not in its place here, nor is its manual.
		text = regexp.MustCompile(`(?m)^Documentation=.*\n`).ReplaceAll(text, nil)
		text = []byte(strings.Replace(string(text), "=/usr/bin/vhost-net-go", "="+dest+"/usr/bin/vhost-net-go", 1))
		path := filepath.Join(dir, "vhost-net-go@."+ending)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		units = append(units, strings.Replace(path, "@.", "@vm1.", 1))
	}
	if out := tooltest.Run(t, "", "systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, units...)...); out != "" {
		t.Errorf("systemd-analyze verify says:\n%s", out)
	}
	// 10 is everything, 0 nothing; what is left is the network.
	tooltest.Run(t, "", "systemd-analyze", "security", "--offline=yes", "--threshold=20", filepath.Join(dir, "vhost-net-go@.service"))
}

// TestAppArmor lets AppArmor's compiler read the profile; nothing is loaded.
func TestAppArmor(t *testing.T) {
	dest := t.TempDir()
	tooltest.Run(t, "", "sh", "install.sh", program(t, "x"), documents(t), dest, "/usr")
	// What it warns of is what this kernel does not enforce.
	tooltest.Run(t, "", "apparmor_parser", "--skip-kernel-load", "--skip-cache", dest+"/etc/apparmor.d/vhost-net-go")
}

// TestMakefile looks at what make would run.
func TestMakefile(t *testing.T) {
	out := tooltest.Run(t, "", "make", "-n", "-C", "../../..", "install", "deb", "DESTDIR=/stage", "PREFIX=/opt/x", "VERSION=1.2")
	for _, want := range []string{
		"-o bin/vhost-net-go ./cmd/vhost-net-go", "./cmd/vhost-net-go/internal/manual/generate -version '1.2'",
		"sh cmd/vhost-net-go/dist/install.sh bin/vhost-net-go bin/doc '/stage' '/opt/x'",
		"sh cmd/vhost-net-go/dist/deb.sh bin/vhost-net-go bin/doc '1.2' bin",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in:\n%s", want, out)
		}
	}
}

func TestScriptsOfShell(t *testing.T) {
	for _, script := range []string{"install.sh", "deb.sh", "debian/postinst", "debian/prerm", "debian/postrm"} {
		tooltest.Run(t, "", "sh", "-n", script)
	}
}
