package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir() + "/doc"
	if err := write(dir, "1.2.3", time.Unix(0, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"1": `.TH vhost\-net\-go 1 "1970-01-01" "vhost\-net\-go 1.2.3"`, "bash": "complete -F", "zsh": "#compdef vhost-net-go\n", "fish": "complete -c",
	} {
		text, err := os.ReadFile(dir + "/vhost-net-go." + name)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q, error %v", name, want, err)
		}
	}
	if err := write("/dev/null/x", "", time.Time{}); err == nil {
		t.Error("wrote below a file")
	}
}
