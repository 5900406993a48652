package logging

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestWithoutHeading(t *testing.T) {
	var line bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Name: "vhost-net-go", Output: &line})
	log.Warn("hello", "a", 1)
	if got := string(withoutHeading(line.Bytes())); got != "hello: a=1\n" {
		t.Errorf("%q", got)
	}
	line.Reset()
	log.Named("net").Warn("hello")
	if got := string(withoutHeading(line.Bytes())); got != "hello\n" {
		t.Errorf("%q", got)
	}
	if got := string(withoutHeading([]byte("plain\n"))); got != "plain\n" {
		t.Errorf("%q", got)
	}
}

// TestDetach wants silence on standard error afterwards, whether or not the
// machine has a system's log.
func TestDetach(t *testing.T) {
	var stderr bytes.Buffer
	l, err := Open(&stderr, "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Info("before")
	n := stderr.Len()
	l.Detach()
	l.Info("after")
	_, _ = io.WriteString(l.out, "after")
	if n == 0 || stderr.Len() != n {
		t.Errorf("standard error: %q", &stderr)
	}
}
