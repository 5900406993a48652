package factory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// treePackages are the programs of the tree, taken from Debian 13 with backports.
var treePackages = []string{
	"base-files", "base-passwd", "coreutils", "dash", "grep", "libc-bin", "sed", "util-linux",
	"busybox-static", "ethtool", "iperf3", "iproute2", "iputils-ping", "kmod", "mount", "netperf", "procps", "xz-utils",
	"qemu-system-x86", "passt", "user-mode-linux", "dpdk-dev",
	"libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu",
	"dhcpcd-base", "isc-dhcp-client", "systemd", // DHCP clients; the last has networkd
}

// preferences: backports before Debian 13, User Mode Linux from the release after it, the oldest only when asked for.
const preferences = `Package: *
Pin: release n=trixie-backports
Pin-Priority: 600

Package: *
Pin: release n=forky
Pin-Priority: 50

Package: *
Pin: release n=bookworm
Pin-Priority: 50

Package: user-mode-linux
Pin: release n=forky
Pin-Priority: 900
`

func sources(mirror string) string {
	option := "signed-by=" + keyring
	return fmt.Sprintf("deb [%s] %s trixie main non-free\ndeb [%s] %s trixie-backports main\n"+
		"deb [%s check-valid-until=no] %s forky main\ndeb [%s] %s bookworm main\n",
		option, mirror, option, mirror, option, mirror, option, mirror)
}

// Tree is a Debian root file system that was unpacked but never configured: good for running programs from, as root or as
// an ordinary user.
type Tree struct {
	// Root is the path of the tree. Nothing may write to it.
	Root string
	// Kernel is a folder with vmlinuz and the modules of Debian's current cloud kernel.
	Kernel string
	// UML is the path, inside the tree, of the current User Mode Linux; UML61 that of Debian 12's.
	UML, UML61 string
}

// Tree returns the tree, after building it if need be. That takes about two minutes and 350 MB of downloads.
func (c *Cache) Tree(ctx context.Context) (*Tree, error) {
	if runtime.GOARCH != "amd64" {
		return nil, errors.New("guests exist for amd64 only")
	}
	recipe := sha256.Sum256([]byte(strings.Join(treePackages, " ") + preferences + sources("") + treeFilesVersion))
	dir, err := c.Once(ctx, fmt.Sprintf("tree-%x", recipe[:6]), func(dir string) error { return c.buildTree(ctx, dir) })
	if err != nil {
		return nil, err
	}
	return &Tree{
		Root:   filepath.Join(dir, "root"),
		Kernel: filepath.Join(dir, "kernel"),
		UML:    "/usr/bin/linux.uml",
		UML61:  "/opt/uml61/usr/bin/linux.uml",
	}, nil
}

func (c *Cache) buildTree(ctx context.Context, dir string) error {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("not a Debian machine: %w", err)
		}
	}
	unlock, err := lock(ctx, filepath.Join(c.Dir, "apt.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	mirror, err := machineMirror(ctx)
	if err != nil {
		return err
	}
	apt, err := newApt(ctx, filepath.Join(c.Dir, "apt"), sources(mirror), preferences)
	if err != nil {
		return err
	}
	parts := []struct {
		into, prefix string
		pkgs         []string
	}{
		{"root", "", treePackages},
		{"kernel", "linux-", []string{"linux-image-cloud-amd64"}},
		{"root/opt/uml61", "user-mode-linux_", []string{"user-mode-linux/bookworm"}},
	}
	for _, p := range parts {
		debs, err := apt.fetch(ctx, p.pkgs...)
		if err != nil {
			return err
		}
		into := filepath.Join(dir, p.into)
		if p.into == "root" {
			if err := makeUsrMerged(into); err != nil {
				return err
			}
		}
		if err := unpack(ctx, into, p.prefix, debs); err != nil {
			return err
		}
	}
	return writeTreeFiles(filepath.Join(dir, "root"))
}

// unpack extracts the packages whose file names start with prefix into dir.
func unpack(ctx context.Context, dir, prefix string, debs []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	for _, deb := range debs {
		if !strings.HasPrefix(filepath.Base(deb), prefix) {
			continue
		}
		g.Go(func() error {
			_, err := runTool(ctx, "dpkg-deb", "-x", deb, dir)
			return err
		})
	}
	return g.Wait()
}

// makeUsrMerged makes the symbolic links that today's packages expect in a root file system.
func makeUsrMerged(root string) error {
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", d), 0o755); err != nil {
			return fmt.Errorf("make the tree: %w", err)
		}
		if err := os.Symlink("usr/"+d, filepath.Join(root, d)); err != nil {
			return fmt.Errorf("make the tree: %w", err)
		}
	}
	return nil
}

const treeFilesVersion = "3"

// writeTreeFiles adds the few files that the packages' own configuration scripts would have made.
func writeTreeFiles(root string) error {
	files := map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n" +
			"libvirt-qemu:x:64055:104::/:/bin/false\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
		"etc/group":         "root:x:0:\nkvm:x:104:\nlibvirt:x:105:\nlibvirt-qemu:x:64055:\nnogroup:x:65534:\n",
		"etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
		"etc/machine-id":    "00000000000000000000000000000001\n",
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "root", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return fmt.Errorf("make the tree: %w", err)
		}
	}
	// Some package brings it as a folder.
	if err := os.RemoveAll(filepath.Join(root, "var/run")); err != nil {
		return fmt.Errorf("make the tree: %w", err)
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		return fmt.Errorf("make the tree: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("make the tree: %w", err)
		}
	}
	return nil
}
