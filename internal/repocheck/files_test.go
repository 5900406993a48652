package repocheck

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// modulePath is the main module's; rules speak of folders below it.
const modulePath = "github.com/vhost-net-go/vhost-net-go"

// maxTextBytes bounds the files that the text rules read.
const maxTextBytes = 1 << 20

// file is one file of the tree. syntax is nil unless it is Go.
type file struct {
	path   string // slash-separated, below the root
	text   []byte
	syntax *ast.File
	fset   *token.FileSet
}

func (f file) dir() string  { return path.Dir(f.path) }
func (f file) isGo() bool   { return f.syntax != nil }
func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// isScript reports whether the file is a script for testscript.
func (f file) isScript() bool { return strings.HasSuffix(f.path, ".txtar") }

// lines counts as wc -l does.
func (f file) lines() int { return bytes.Count(f.text, []byte{'\n'}) }

// under reports whether the file lies in dir or below it.
func (f file) under(dir string) bool {
	return f.path == dir || strings.HasPrefix(f.path, dir+"/")
}

// imports returns the import paths.
func (f file) imports() []string {
	var out []string
	for _, spec := range f.syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// newFile parses Go files; other text stays text.
func newFile(name string, text []byte) (file, error) {
	f := file{path: name, text: text}
	if !strings.HasSuffix(name, ".go") {
		return f, nil
	}
	f.fset = token.NewFileSet()
	var err error
	f.syntax, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

// tree reads every text file of the repository except what is built, cached or
// kept as test data; scripts for testscript count as tests.
func tree(t *testing.T) []file {
	t.Helper()
	root := repoRoot(t)
	var files []file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skippedFolder(rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if rel == ".git" { // a file in a work tree of git's
			return nil
		}
		if strings.Contains("/"+filepath.ToSlash(rel), "/testdata/") && filepath.Ext(rel) != ".txtar" {
			return nil
		}
		text, ok, err := readText(name, d)
		if err != nil || !ok {
			return err
		}
		f, err := newFile(filepath.ToSlash(rel), text)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func skippedFolder(rel string) bool {
	switch base := filepath.Base(rel); {
	case rel == ".", base == ".ci", base == ".github":
		return false
	case strings.HasPrefix(base, "."), strings.HasPrefix(base, "_"):
		return true
	default:
		return base == "bin" || base == "cache"
	}
}

// readText returns a regular file's content; ok is false for big or binary
// ones.
func readText(name string, d fs.DirEntry) (text []byte, ok bool, err error) {
	info, err := d.Info()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxTextBytes {
		return nil, false, err
	}
	text, err = os.ReadFile(name)
	return text, err == nil && bytes.IndexByte(text, 0) < 0, err
}

func repoRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module "+modulePath+"\n")) {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		t.Fatal("no go.mod of the main module above this folder")
	}
}
