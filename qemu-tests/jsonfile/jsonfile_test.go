package jsonfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "x.json")
	if err := Write(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); string(text) != "{\n  \"a\": 1\n}\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := Write(filepath.Join(path, "below"), 1); err == nil || !strings.Contains(err.Error(), "write the report") {
		t.Errorf("below a file: %v", err)
	}
	if err := Write(path, func() {}); err == nil {
		t.Error("a function was written")
	}
}
