package factory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// goBuild builds a package of this module, or of the project's root module, without cgo. moduleDir is where the go command
// finds the module.
func goBuild(ctx context.Context, moduleDir, pkg, out string) error {
	_, err := runTool(ctx, "env", "-C", moduleDir, "CGO_ENABLED=0", "go", "build", "-trimpath", "-buildvcs=false", "-o", out, pkg)
	if err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

// ModuleDir returns the folder of the qemu-tests module, above the working folder or in it.
func ModuleDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		for _, c := range []string{d, filepath.Join(d, "qemu-tests")} {
			text, err := os.ReadFile(filepath.Join(c, "go.mod"))
			if err == nil && strings.HasPrefix(string(text), "module github.com/vhost-net-go/vhost-net-go/qemu-tests\n") {
				return c, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not in the project's tree", dir)
}

// BuildAgent builds the guests' tool into dir and returns its path.
func BuildAgent(ctx context.Context, dir string) (string, error) {
	module, err := ModuleDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "guest-agent")
	return out, goBuild(ctx, module, "./cmd/guest-agent", out)
}

// BuildDaemon builds vhost-net-go into dir and returns its path.
func BuildDaemon(ctx context.Context, dir string) (string, error) {
	module, err := ModuleDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "vhost-net-go")
	return out, goBuild(ctx, filepath.Dir(module), "./cmd/vhost-net-go", out)
}

// GoInstall builds a program of another module, PATH@VERSION, into dir.
func GoInstall(ctx context.Context, dir, program string) error {
	_, err := runTool(ctx, "env", "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOBIN="+dir, "go", "install", program)
	if err != nil {
		return fmt.Errorf("build %s: %w", program, err)
	}
	return nil
}
