package guest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStep(t *testing.T) {
	tests := []struct {
		line string
		want Step
		ok   bool
	}{
		{"@step lease ok address 10.0.0.1/24 ", Step{"lease", true, "address 10.0.0.1/24"}, true},
		{"@step lease fail", Step{"lease", false, ""}, true},
		{"@step lease ok", Step{"lease", true, ""}, true},
		{"@step lease maybe", Step{}, false},
		{"@step lease", Step{}, false},
		{"@step", Step{}, false},
		{"", Step{}, false},
		{"echo @step lease ok", Step{}, false},
	}
	for _, tt := range tests {
		got, ok := parseStep(tt.line)
		if ok != tt.ok || !cmp.Equal(got, tt.want) {
			t.Errorf("parseStep(%q) = %v, %v", tt.line, got, ok)
		}
	}
}

func FuzzConsole(f *testing.F) {
	f.Add([]byte("@step a ok b\r\n[ 1.0] noise @step c fail\n@done\n"))
	f.Add([]byte("\n\n@step\n@step a\n@step a ok"))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, split := NewConsole(nil), NewConsole(nil)
		_, _ = whole.Write(text)
		for i := range text {
			_, _ = split.Write(text[i : i+1])
		}
		if diff := cmp.Diff(whole.Steps(), split.Steps()); diff != "" {
			t.Errorf("the same output in other pieces: %s", diff)
		}
	})
}

func TestConsoleWaitsForTheNthStep(t *testing.T) {
	c := NewConsole(nil)
	go func() {
		for _, piece := range []string{"@step boot ok 1\r\n", "[  1.2] kernel says@step bo", "ot fail 2\n@do", "ne\n"} {
			time.Sleep(time.Millisecond)
			_, _ = c.Write([]byte(piece))
		}
	}()
	for n, want := range []Step{{"boot", true, "1"}, {"boot", false, "2"}} {
		got, err := c.Step(t.Context(), "boot", n+1)
		if err != nil || got != want {
			t.Errorf("report %d: %v, %v", n+1, got, err)
		}
	}
	if err := c.Finish(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConsoleSaysWhyNothingComes(t *testing.T) {
	c := NewConsole(nil)
	_, _ = c.Write([]byte("Kernel panic\nlast words"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	_, err := c.Step(ctx, "lease", 1)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "last words") {
		t.Error(err)
	}
	c.end()
	if _, err := c.Step(t.Context(), "lease", 1); !errors.Is(err, errEnded) {
		t.Error(err)
	}
}

func TestConsoleShow(t *testing.T) {
	var seen bytes.Buffer
	c := NewConsole(nil)
	_, _ = c.Write([]byte("before\n"))
	c.Show(&seen)
	_, _ = c.Write([]byte("after\n"))
	if seen.String() != "after\n" || c.Tail(3) != "before\nafter\n" {
		t.Errorf("shown %q, kept %q", seen.String(), c.Tail(3))
	}
}
