package logging

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// recorder is a system's log that keeps what it gets.
type recorder struct{ got []string }

func (r *recorder) add(level, text string) error {
	r.got = append(r.got, level+" "+text)
	return nil
}
func (r *recorder) Err(s string) error     { return r.add("err", s) }
func (r *recorder) Warning(s string) error { return r.add("warning", s) }
func (r *recorder) Info(s string) error    { return r.add("info", s) }
func (r *recorder) Debug(s string) error   { return r.add("debug", s) }

func TestLevelsOfSystemLog(t *testing.T) {
	var r recorder
	for _, level := range []hclog.Level{hclog.Error, hclog.Warn, hclog.Info, hclog.Debug, hclog.Trace, hclog.NoLevel} {
		if err := write(&r, level, level.String()); err != nil {
			t.Error(err)
		}
	}
	if got, want := fmt.Sprint(r.got), "[err error warning warn info info debug debug debug trace info none]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

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
