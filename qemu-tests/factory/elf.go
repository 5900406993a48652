package factory

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// libraryDirs are the loader's default folders in a Debian tree.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/lib64"}

// libraries returns the paths, inside the tree, of all shared objects that program needs, its loader included.
func libraries(root, program string) ([]string, error) {
	seen := map[string]bool{}
	var found []string
	queue := []string{program}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		needed, err := neededBy(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("libraries of %s: %w", program, err)
		}
		for _, lib := range needed {
			if seen[lib] {
				continue
			}
			seen[lib] = true
			path, err := findLibrary(root, lib)
			if err != nil {
				return nil, fmt.Errorf("libraries of %s: %w", program, err)
			}
			found = append(found, path)
			queue = append(queue, path)
		}
	}
	return found, nil
}

func neededBy(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			interp := make([]byte, p.Filesz)
			if _, err := p.ReadAt(interp, 0); err != nil {
				return nil, err
			}
			needed = append(needed, filepath.Base(string(bytes.TrimRight(interp, "\x00"))))
		}
	}
	return needed, nil
}

func findLibrary(root, name string) (string, error) {
	for _, d := range libraryDirs {
		if exists(filepath.Join(root, d, name)) {
			return filepath.Join(d, name), nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, os.ErrNotExist)
}

// moduleDepends returns the names of the modules that a kernel module says it needs.
func moduleDepends(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, fmt.Errorf("kernel module: %w", err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("kernel module without .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("kernel module: %w", err)
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if names, ok := strings.CutPrefix(field, "depends="); ok && names != "" {
			return strings.Split(names, ","), nil
		}
	}
	return nil, nil
}
