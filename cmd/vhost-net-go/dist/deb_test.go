package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/tooltest"
)

// debRoot is a machine with nothing on it but dpkg's own files.
type debRoot struct {
	t   *testing.T
	dir string
}

func newDebRoot(t *testing.T) debRoot {
	t.Helper()
	tooltest.Need(t, "dpkg-deb")
	if os.Geteuid() != 0 {
		t.Skip("dpkg installs for root only")
	}
	r := debRoot{t, t.TempDir()}
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(r.dir+"/var/lib/dpkg/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(r.dir+"/var/lib/dpkg/"+name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// dpkg runs it on the root. The package's scripts run as they are, told of the
// root, since there is no shell below it.
func (r debRoot) dpkg(args ...string) {
	r.t.Helper()
	all := append([]string{
		"--root=" + r.dir, "--log=" + r.dir + "/dpkg.log", "--force-script-chrootless", "--force-confold", "--force-architecture",
	}, args...)
	cmd := exec.Command("dpkg", all...)
	// Programs that dpkg wants to find, and that not everybody has in the path.
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("dpkg %q: %v\n%s", args, err, out)
	}
}

func (r debRoot) status() string {
	r.t.Helper()
	out, err := exec.Command("dpkg-query", "--admindir="+r.dir+"/var/lib/dpkg", "-W", "-f=${Version} ${db:Status-Status}", "vhost-net-go").CombinedOutput()
	if err != nil {
		return "not there"
	}
	return string(out)
}

// packageFiles are those that do not belong to dpkg.
func (r debRoot) packageFiles() []string {
	var out []string
	for _, f := range files(r.t, r.dir) {
		if !strings.HasPrefix(f, "/var/lib/dpkg/") && f != "/dpkg.log" {
			out = append(out, f)
		}
	}
	return out
}

// makeDeb makes the package of a program that says its version.
func makeDeb(t *testing.T, docs, version string) string {
	t.Helper()
	cmd := exec.Command("sh", "deb.sh", program(t, version), docs, version, t.TempDir())
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1000000000")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	return strings.TrimSpace(string(out))
}

// TestDeb installs, upgrades, removes and purges the package.
func TestDeb(t *testing.T) {
	r, docs := newDebRoot(t), documents(t)
	first, second := makeDeb(t, docs, "1.0"), makeDeb(t, docs, "1.1~rc1")
	want := append(installed("/usr"), "/usr/share/zsh/vendor-completions/_vhost-net-go", "/etc/apparmor.d/vhost-net-go")
	slices.Sort(want)

	r.dpkg("-i", first)
	if got := r.status(); got != "1.0 installed" {
		t.Fatalf("after the installation: %s", got)
	}
	if got := r.packageFiles(); !slices.Equal(got, want) {
		t.Errorf("installed\n%q, want\n%q", got, want)
	}
	r.dpkg("--verify", "vhost-net-go")

	// What the administrator wrote survives.
	profile, config := r.dir+"/etc/apparmor.d/vhost-net-go", r.dir+"/etc/vhost-net-go/vm1.conf"
	for _, path := range []string{profile, config} {
		if err := os.WriteFile(path, []byte("# mine\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.dpkg("-i", second)
	if got := r.status(); got != "1.1~rc1 installed" {
		t.Fatalf("after the upgrade: %s", got)
	}
	if out := tooltest.Run(t, "", r.dir+"/usr/bin/vhost-net-go"); out != "1.1~rc1\n" {
		t.Errorf("after the upgrade the program says %q", out)
	}
	for _, path := range []string{profile, config} {
		if text, err := os.ReadFile(path); string(text) != "# mine\n" {
			t.Errorf("%s: %q, error %v", path, text, err)
		}
	}

	r.dpkg("--remove", "vhost-net-go")
	if got := r.packageFiles(); !slices.Equal(got, []string{"/etc/apparmor.d/vhost-net-go", "/etc/vhost-net-go/vm1.conf"}) {
		t.Errorf("after the removal there is %q", got)
	}
	r.dpkg("--purge", "vhost-net-go")
	if got := r.packageFiles(); !slices.Equal(got, []string{"/etc/vhost-net-go/vm1.conf"}) {
		t.Errorf("after the purge there is %q", got)
	}
	if got := r.status(); got != "not there" && !strings.Contains(got, "not-installed") {
		t.Errorf("after the purge: %s", got)
	}
}

// TestDebIsReproducible makes it twice.
func TestDebIsReproducible(t *testing.T) {
	tooltest.Need(t, "dpkg-deb")
	docs := documents(t)
	var texts [2]string
	for i := range texts {
		text, err := os.ReadFile(makeDeb(t, docs, "1.0"))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	if texts[0] != texts[1] {
		t.Error("the same input gives two packages")
	}
	listing := tooltest.Run(t, "", "dpkg-deb", "-c", makeDeb(t, docs, "1.0"))
	for line := range strings.Lines(listing) {
		if f := strings.Fields(line); len(f) < 2 || f[1] != "root/root" {
			t.Errorf("not root's: %s", line)
		}
	}
}

func TestDebNeedsDpkg(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	dirname, err := exec.LookPath("dirname")
	if err == nil {
		err = os.Symlink(dirname, filepath.Join(bin, "dirname"))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sh, "deb.sh", "x", "x", "1.0", t.TempDir())
	cmd.Env = []string{"PATH=" + bin}
	out, err := cmd.CombinedOutput()
	if err == nil || string(out) != "dpkg-deb is needed to make a package; it is in Debian's package dpkg\n" {
		t.Errorf("%q, error %v", out, err)
	}
}
