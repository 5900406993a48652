package factory

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// aptTimeout bounds one apt call; the longest one fetches about 350 MB.
const aptTimeout = 10 * time.Minute

// apt is the machine's apt with lists, archives and an (empty) package state of its own below dir. Settings such as
// proxies and mirror credentials still come from the machine.
type apt struct {
	dir string
}

// newApt prepares dir and fetches the package lists. The caller holds the lock that guards dir.
func newApt(ctx context.Context, dir, sources, preferences string) (*apt, error) {
	a := &apt{dir: dir}
	for _, d := range []string{"etc", "state/lists/partial", "cache/archives/partial", "none/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("prepare apt: %w", err)
		}
	}
	for name, text := range map[string]string{"etc/sources.list": sources, "etc/preferences": preferences, "state/status": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("prepare apt: %w", err)
		}
	}
	if _, err := a.run(ctx, "apt-get", "update", "-q"); err != nil {
		return nil, err
	}
	return a, nil
}

// run calls an apt program. APT::Sandbox::User is root because the _apt user may not enter the cache folder.
func (a *apt) run(ctx context.Context, program string, args ...string) (string, error) {
	options := []string{
		"Dir::State=" + a.dir + "/state", "Dir::State::status=" + a.dir + "/state/status",
		"Dir::Cache=" + a.dir + "/cache", "Dir::Etc::SourceList=" + a.dir + "/etc/sources.list", "Dir::Etc::SourceParts=/dev/null",
		"Dir::Etc::Preferences=" + a.dir + "/etc/preferences", "Dir::Etc::PreferencesParts=/dev/null",
		"Acquire::Languages=none", "Acquire::Retries=3", "Acquire::http::Timeout=30",
		"APT::Architecture=amd64", "APT::Architectures=amd64", "APT::Sandbox::User=root", "APT::Install-Recommends=false",
	}
	var all []string
	for _, o := range options {
		all = append(all, "-o", o)
	}
	return runTool(ctx, program, append(all, args...)...)
}

// fetch downloads pkgs (name, name=version or name/suite) with all they depend on and returns the paths of the packages.
func (a *apt) fetch(ctx context.Context, pkgs ...string) ([]string, error) {
	// With no archive at hand this lists every package of the set, also those that were fetched before.
	uris, err := a.run(ctx, "apt-get", append([]string{"-o", "Dir::Cache::archives=" + a.dir + "/none", "install", "--print-uris", "-qqy"}, pkgs...)...)
	if err != nil {
		return nil, err
	}
	names := debNames(uris)
	if len(names) == 0 {
		return nil, fmt.Errorf("apt knows no package for %s", strings.Join(pkgs, " "))
	}
	if _, err := a.run(ctx, "apt-get", append([]string{"install", "--download-only", "-qqy"}, pkgs...)...); err != nil {
		return nil, err
	}
	return a.archives(names), nil
}

func (a *apt) archives(names []string) []string {
	paths := make([]string, len(names))
	for i, n := range names {
		paths[i] = filepath.Join(a.dir, "cache/archives", n)
	}
	return paths
}

var printedURI = regexp.MustCompile(`(?m)^'[^']*' (\S+\.deb) `)

// debNames picks the file names out of what apt-get --print-uris prints.
func debNames(uris string) []string {
	var names []string
	for _, m := range printedURI.FindAllStringSubmatch(uris, -1) {
		names = append(names, m[1])
	}
	return names
}

// aptTarget is one line of apt-get indextargets: a package list that the machine is configured to use.
type aptTarget struct {
	uri, release string
}

var debianRelease = regexp.MustCompile(`^(bookworm|trixie|forky|sid|oldstable|stable|testing|unstable)(-updates|-backports)?$`)

// machineMirror returns the base address of the Debian mirror in the machine's apt configuration.
func machineMirror(ctx context.Context) (string, error) {
	out, err := runTool(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		uri, release, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && isDebianMirror(aptTarget{uri, release}) {
			return strings.TrimRight(uri, "/"), nil
		}
	}
	return "", fmt.Errorf("the machine's apt configuration names no Debian mirror")
}

// isDebianMirror leaves out third parties' repositories and the security archive, which lacks most packages.
func isDebianMirror(t aptTarget) bool {
	return debianRelease.MatchString(t.release) && !strings.Contains(t.uri, "security")
}

// runTool runs a program of the machine and returns its standard output; its error holds what it said.
func runTool(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, aptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, lastLines(stderr.String()+stdout.String(), 8))
	}
	return stdout.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
