package factory

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"
)

//go:embed init.sh
var initScript string

//go:embed lib.sh
var libScript string

// initramfsPrograms are put into the QEMU guest beside busybox, with the libraries they need.
var initramfsPrograms = []string{"/usr/bin/iperf3", "/usr/bin/netperf", "/usr/bin/netserver", "/usr/sbin/ethtool"}

// threadCancel is what the C library loads when a thread is cancelled, as iperf3 does with its streams; without it, it aborts.
const threadCancel = "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1"

// Kernel is what QEMU boots.
type Kernel struct {
	Image     string // path of the kernel
	Initramfs string // path of an initramfs whose init runs /script
}

// MakeKernel writes the initramfs into dir; agent is the path of the guests' tool.
func MakeKernel(ctx context.Context, tree *Tree, agent, dir string) (*Kernel, error) {
	images, _ := filepath.Glob(tree.Kernel + "/usr/lib/modules/*/vmlinuz")
	if len(images) == 0 {
		images, _ = filepath.Glob(tree.Kernel + "/boot/vmlinuz-*")
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("want one kernel below %s, found %d", tree.Kernel, len(images))
	}
	modules, err := loadOrder(ctx, tree, "virtio_net")
	if err != nil {
		return nil, err
	}
	records := layout()
	for i, m := range modules {
		records = append(records, cpio.StaticFile(fmt.Sprintf("modules/%d-%s.ko", i, m.name), string(m.data), 0o644))
	}
	records = append(records, cpio.StaticFile("init", initScript, 0o755), cpio.StaticFile("lib.sh", libScript, 0o644))
	files := map[string]string{
		"bin/busybox": filepath.Join(tree.Root, "/usr/bin/busybox"), "bin/guest-agent": agent,
		strings.TrimPrefix(threadCancel, "/"): filepath.Join(tree.Root, threadCancel),
	}
	for _, program := range initramfsPrograms {
		libs, err := libraries(tree.Root, program)
		if err != nil {
			return nil, err
		}
		for _, path := range append(libs, program) {
			files[strings.TrimPrefix(path, "/")] = filepath.Join(tree.Root, path)
		}
	}
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("initramfs: %w", err)
		}
		records = append(records, cpio.StaticFile(name, string(data), 0o755))
	}
	out := filepath.Join(dir, "initramfs")
	return &Kernel{Image: images[0], Initramfs: out}, writeArchive(out, records)
}

// layout returns the folders and links that everything else in the initramfs is put on. The kernel makes files in the order of
// the archive, so folders come first.
func layout() []cpio.Record {
	var records []cpio.Record
	for _, d := range []string{"bin", "dev", "etc", "lib64", "modules", "proc", "run", "sys", "tmp", "usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib/x86_64-linux-gnu"} {
		records = append(records, cpio.Directory(d, 0o755))
	}
	return append(records,
		cpio.Symlink("bin/sh", "busybox"),
		cpio.CharDev("dev/console", 0o600, 5, 1),
		cpio.StaticFile("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o644),
		cpio.Symlink("lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"))
}

func writeArchive(path string, records []cpio.Record) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	defer f.Close()
	if err := writeRecords(f, records); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return f.Close()
}

func writeRecords(w io.Writer, records []cpio.Record) error {
	out := cpio.Newc.Writer(w)
	if err := cpio.WriteRecords(out, records); err != nil {
		return err
	}
	return cpio.WriteTrailer(out)
}

// AppendScript copies the initramfs at base to path and adds script to it as /script: Linux unpacks archives one after the
// other.
func AppendScript(base, path, script string) error {
	archive, err := os.ReadFile(base)
	if err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	out := bytes.NewBuffer(archive)
	for out.Len()%4 != 0 {
		out.WriteByte(0)
	}
	if err := writeRecords(out, []cpio.Record{cpio.StaticFile("script", script, 0o755)}); err != nil {
		return fmt.Errorf("initramfs: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// Lib returns the shell functions that guest scripts use.
func Lib() string { return libScript }

type module struct {
	name string
	data []byte
}

// loadOrder returns the module called name after all those it needs. Modules that are not in the kernel's folder are taken to
// be built in.
func loadOrder(ctx context.Context, tree *Tree, name string) ([]module, error) {
	var order []module
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		data, err := readModule(ctx, tree, name)
		if err != nil || data == nil {
			return err
		}
		depends, err := moduleDepends(data)
		if err != nil {
			return err
		}
		for _, d := range depends {
			if err := visit(d); err != nil {
				return err
			}
		}
		order = append(order, module{name, data})
		return nil
	}
	if err := visit(name); err != nil {
		return nil, err
	}
	return order, nil
}

// readModule returns a module's ELF file, or nil if there is none.
func readModule(ctx context.Context, tree *Tree, name string) ([]byte, error) {
	var found string
	err := filepath.WalkDir(tree.Kernel, func(path string, d os.DirEntry, err error) error {
		file, _, _ := strings.Cut(filepath.Base(path), ".ko")
		if err == nil && strings.Contains(path, ".ko") && strings.ReplaceAll(file, "-", "_") == name {
			found = path
		}
		return err
	})
	if err != nil || found == "" {
		return nil, err
	}
	switch filepath.Ext(found) {
	case ".ko":
		return os.ReadFile(found)
	case ".xz":
		// The machine may not have xz, and the tree's works only with the tree's libraries.
		libs := filepath.Join(tree.Root, libraryDirs[0])
		text, err := runTool(ctx, filepath.Join(libs, "ld-linux-x86-64.so.2"), "--library-path", libs, filepath.Join(tree.Root, "usr/bin/xz"), "-dc", found)
		return []byte(text), err
	}
	return nil, fmt.Errorf("%s: unknown compression", found)
}
